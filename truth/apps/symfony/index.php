<?php
// A plant's pages on Symfony before PostgreSQL with one habit, given by the web server.

require 'Symfony/Bundle/FrameworkBundle/autoload.php';
require 'Doctrine/DBAL/autoload.php';

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\ErrorHandler\Debug;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Session\Storage\Handler\PdoSessionHandler;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

final class Plant extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    public function getProjectDir(): string
    {
        return $_SERVER['OWN'];
    }

    /** Sessions are PostgreSQL's; a session's row is locked from its reading to the answer's end, or never. */
    private function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'open and shut', 'http_method_override' => false,
            'router' => ['utf8' => true], 'php_errors' => ['log' => false],
            'session' => ['handler_id' => PdoSessionHandler::class, 'storage_factory_id' => 'session.storage.factory.native']]);
        $locked = $_SERVER['HABIT'] === 'session-locked' ? PdoSessionHandler::LOCK_TRANSACTIONAL : PdoSessionHandler::LOCK_NONE;
        $database = "pgsql:host=127.0.0.1;port={$_SERVER['DATABASE']};dbname=postgres";
        $options = ['db_username' => 'truth', 'lock_mode' => $locked, 'db_connection_options' => [PDO::ATTR_PERSISTENT => true]];
        $container->services()->set(PdoSessionHandler::class)->args([$database, $options]);
    }

    private function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('valve', '/valves/{id<\d+>}')->controller([$this, 'valve']);
        $routes->add('offer', '/valves/{id<\d+>}/offer')->controller([$this, 'offer']);
    }

    /** The connection is the process' own and kept for its next request, or made for this one. */
    private function database(): Connection
    {
        return DriverManager::getConnection(['driver' => 'pdo_pgsql', 'host' => '127.0.0.1', 'dbname' => 'postgres', 'user' => 'truth',
            'port' => (int) $_SERVER['DATABASE'], 'persistent' => $_SERVER['HABIT'] !== 'connection-each-time']);
    }

    public function valve(int $id): JsonResponse
    {
        return new JsonResponse($this->database()->fetchAssociative('select id, name, note from valves where id = ?', [$id]));
    }

    public function offer(Request $request, int $id): JsonResponse
    {
        $name = $request->getSession()->get('name');
        $price = file_get_contents("http://127.0.0.1:{$_SERVER['SERVICE']}/bytes/16");
        return new JsonResponse(['valve' => $id, 'for' => $name, 'price' => strlen($price)]);
    }
}

$debug = $_SERVER['HABIT'] === 'debug';
if ($debug) {
    Debug::enable();
}
$kernel = new Plant($debug ? 'dev' : 'prod', $debug);
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
