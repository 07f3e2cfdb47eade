<?php
// A shop on Slim with one habit, given by the web server: what differs between habits is said where it is.

require 'Slim/autoload.php';
require 'Twig/autoload.php';

const HALLS = 400;
const SHOWN = 60;

$habit = $_SERVER['HABIT'];
$own = $_SERVER['OWN'];
$kept = $habit === 'routes' ? false : "$own/routes.php";
$settings = ['routerCacheFile' => $kept, 'own' => $own, 'service' => $_SERVER['SERVICE'] ?? ''];
$app = new \Slim\App(['settings' => $settings]);
$container = $app->getContainer();
$container['view'] = fn ($container) => new \Twig\Environment(
    new \Twig\Loader\FilesystemLoader(__DIR__ . '/templates'), ['cache' => $container->get('settings')['own'] . '/twig']
);

/** A hall's table of valves, and how many of them are open, kept for an hour. */
function hall($view, int $hall): array
{
    return apcu_entry("hall.$hall", function () use ($view, $hall) {
        $valve = fn ($n) => ['id' => $n, 'name' => "valve $n of hall $hall", 'open' => $n % 3 > 0];
        $valves = array_map($valve, range(1, 300));
        $open = count(array_filter($valves, fn ($valve) => $valve['open']));
        return ['open' => $open, 'table' => $view->render('table.html', ['hall' => $hall, 'valves' => $valves])];
    }, 3600);
}

function price(string $service): string
{
    return file_get_contents("http://127.0.0.1:$service/bytes/16");
}

$app->get('/', function ($request, $response) {
    return $response->write($this->view->render('start.html', ['halls' => range(1, 20)]));
});
$app->get('/overview', function ($request, $response) {
    for ($hall = 1; $hall <= SHOWN; $hall++) {
        $response->write("hall $hall: " . hall($this->view, $hall)['open'] . " open\n");
    }
    return $response;
});
$app->get('/offer', function ($request, $response) {
    session_start(['read_and_close' => $_SERVER['HABIT'] === 'session-read']);
    $name = $_SESSION['name'] ?? 'visitor';
    return $response->write("$name: " . price($this->get('settings')['service']));
});
$valve = fn ($request, $response, $given) => $response->write("valve {$given['id']}");
for ($hall = 1; $hall <= HALLS; $hall++) {
    $app->get("/halls/$hall/valves/{id:[0-9]+}[/{part:[a-z]+}]", $valve);
}
$app->run();
