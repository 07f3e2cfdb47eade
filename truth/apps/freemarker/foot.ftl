<#ftl output_format="HTML">
<p>Who finds a valve without its notice tells the control room.</p>
