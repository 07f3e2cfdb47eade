<?php
// Pages of a plant by Smarty with one habit, given by the web server.

require __DIR__ . '/pages.php';

const LISTS = 4;

$habit = $_SERVER['HABIT'];
$smarty = pages($_SERVER['OWN'], $habit === 'ordered-directories');
$service = 'http://127.0.0.1:' . ($_SERVER['SERVICE'] ?? 0) . '/bytes/64';

/** An order changes what its valve's page says: that page is thrown away, and a short answer given. */
function order(Smarty $smarty): string
{
    $valve = mt_rand(1, VALVES);
    $gone = $smarty->clearCache(null, "valve|$valve");
    return "valve $valve ordered, $gone page is out of date\n";
}

/** Offers that change each second, with the price of the moment. */
function offers(Smarty $smarty, string $service, bool $locking): string
{
    $smarty->cache_locking = $locking;
    $smarty->setCacheLifetime(1);
    $page = $smarty->createTemplate('offers.tpl', 'offers');
    if (!$page->isCached()) {
        $offer = fn ($n) => ['name' => "valve $n", 'price' => $n * 7 % 97];
        $page->assign(['price' => file_get_contents($service), 'offers' => array_map($offer, range(1, ROWS))]);
    }
    return $page->fetch();
}

/** A page that says what four partners have: their lists are fetched by the template itself. */
function partners(Smarty $smarty, string $service, bool $kept): string
{
    $smarty->setCaching($kept ? Smarty::CACHING_LIFETIME_CURRENT : Smarty::CACHING_OFF);
    $smarty->setCacheLifetime(60);
    $smarty->assign(['partners' => array_fill(0, LISTS, $service)]);
    return $smarty->fetch('partners.tpl', 'partners');
}

echo match ($habit) {
    'ordered', 'ordered-directories' => order($smarty),
    'offers-locked' => offers($smarty, $service, true),
    'offers' => offers($smarty, $service, false),
    'partners' => partners($smarty, $service, false),
    'partners-kept' => partners($smarty, $service, true),
    default => valve($smarty, mt_rand(1, VALVES)),
};
