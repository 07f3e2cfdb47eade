{* What is offered now. *}
<h1>Offers at {$price|escape}</h1>
<ul>
{foreach $offers as $offer}
<li>{$offer.name|escape}: {$offer.price|string_format:"%.2f"}</li>
{/foreach}
</ul>
