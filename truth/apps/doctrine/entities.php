<?php
// The manager of a plant's entities before PostgreSQL: unless it is for developers, what is known of them is kept in
// memory, and proxies were made before.

require 'Doctrine/ORM/autoload.php';
require 'Symfony/Component/Cache/autoload.php';
require __DIR__ . '/entities/stock.php';

use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\ORMSetup;
use Symfony\Component\Cache\Adapter\ApcuAdapter;

function entities(int $database, string $proxies, bool $developing): EntityManager
{
    $kept = $developing ? null : new ApcuAdapter('stock');
    $setup = ORMSetup::createAttributeMetadataConfiguration([__DIR__ . '/entities'], $developing, $proxies, $kept);
    $connection = DriverManager::getConnection(['driver' => 'pdo_pgsql', 'host' => '127.0.0.1', 'port' => $database,
        'dbname' => 'postgres', 'user' => 'truth', 'persistent' => true]);
    return new EntityManager($connection, $setup);
}
