{* What each partner has. *}
<h1>Partners</h1>
{foreach $partners as $partner}
<pre>{fetch file=$partner assign="list"}{$list|truncate:64|escape}</pre>
{/foreach}
