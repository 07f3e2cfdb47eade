<?php
// Makes the page of each valve once, as visitors do in an hour: install.php OWN [directories].

require __DIR__ . '/pages.php';

$smarty = pages($argv[1], isset($argv[2]));
foreach (range(1, VALVES) as $valve) {
    valve($smarty, $valve);
}
