{* The parts of a valve. *}
<h1>Valve {$valve}</h1>
<table>
{foreach $parts as $part}
<tr><td>{$part.name|escape}</td><td>{$part.price|string_format:"%.2f"}</td></tr>
{/foreach}
</table>
