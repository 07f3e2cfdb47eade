<#ftl output_format="HTML">
<li id="notice-${notice.number?c}">
<#if notice.number % 10 == 0><strong>${notice.title}</strong><#else>${notice.title}</#if>: ${notice.text}
<a href="/valves/${notice.number?c}">more</a>
</li>
