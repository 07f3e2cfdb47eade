<?php
// A plant's pages on Laravel before MariaDB: routes, and nothing that they do not need.

require 'Illuminate/autoload.php';

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Exceptions\Handler;
use Illuminate\Foundation\Http\Kernel;
use Illuminate\Http\Request;

final class Counter extends Model
{
}

final class Valve extends Model
{
    public function counter()
    {
        return $this->hasOne(Counter::class, 'id', 'id');
    }
}

$app = new Application(__DIR__);
$app->useStoragePath($_SERVER['OWN']);
$app->singleton(ExceptionHandler::class, Handler::class);
$router = $app->make('router');

$router->get('/valves/{id}', fn (int $id) => Valve::findOrFail($id));

/** How often each of a hall's valves was opened; `eager` brings all counters by one statement. */
$router->get('/halls/1/{way}', function (string $way) {
    $valves = $way === 'eager' ? Valve::with('counter') : Valve::query();
    return $valves->limit(30)->get()->map(fn ($valve) => ['name' => $valve->name, 'opened' => $valve->counter->n]);
});

$router->get('/plan', fn () => view('plan', ['halls' => range(1, 12)]));

/** A number of the start page, which is worked out once an hour. */
$router->get('/open', fn () => ['open' => cache()->remember('open', 3600, fn () => Valve::where('note', 'like', '%open%')->count())]);

$kernel = new Kernel($app, $router);
$request = Request::capture();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
