<?php
// Smarty with pages that it keeps in files below a server's own directory: in a directory for each part of their names,
// or in one for all.

require 'smarty4/Smarty.class.php';

const VALVES = 1500;
const ROWS = 40;

function pages(string $own, bool $directories): Smarty
{
    $smarty = new Smarty();
    $smarty->setTemplateDir(__DIR__ . '/templates')->setCompileDir("$own/compiled")->setCacheDir("$own/kept");
    $smarty->setCompileCheck(Smarty::COMPILECHECK_OFF);
    $smarty->setCaching(Smarty::CACHING_LIFETIME_CURRENT);
    $smarty->setCacheLifetime(3600);
    $smarty->use_sub_dirs = $directories;
    return $smarty;
}

/** The page of a valve as it is kept, or made anew. */
function valve(Smarty $smarty, int $valve): string
{
    $page = $smarty->createTemplate('valve.tpl', "valve|$valve");
    if (!$page->isCached()) {
        $parts = array_map(fn ($n) => ['name' => "part $n of valve $valve", 'price' => $n * 7 % 97], range(1, ROWS));
        $page->assign(['valve' => $valve, 'parts' => $parts]);
    }
    return $page->fetch();
}
