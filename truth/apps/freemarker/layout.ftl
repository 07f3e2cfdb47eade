<#ftl output_format="HTML">
<#macro page title>
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>${title}</title></head>
<body>
<h1>${title}</h1>
<#nested>
<#include "foot.ftl">
</body>
</html>
</#macro>
<#macro sign kind>
<span class="sign sign-${kind?lower_case}"><#if kind == "danger">!<#elseif kind == "heat">^<#else>-</#if></span>
</#macro>
