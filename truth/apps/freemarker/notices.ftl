<#ftl output_format="HTML">
<#import "layout.ftl" as layout>
<@layout.page title="Notices of hall 7">
<ul>
<#list notices as notice>
<#include "notice.ftl">
</#list>
</ul>
</@layout.page>
