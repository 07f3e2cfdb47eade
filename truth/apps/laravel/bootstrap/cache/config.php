<?php
// As `artisan config:cache` would write it, but for what a case says.

return [
    'app' => ['name' => 'plant', 'env' => 'production', 'debug' => false, 'timezone' => 'UTC', 'locale' => 'en',
        'fallback_locale' => 'en', 'key' => 'open and shut for thirty-two sig', 'cipher' => 'AES-256-CBC', 'providers' => [
            Illuminate\Cache\CacheServiceProvider::class, Illuminate\Database\DatabaseServiceProvider::class,
            Illuminate\Filesystem\FilesystemServiceProvider::class, Illuminate\View\ViewServiceProvider::class],
        'aliases' => []],
    'cache' => ['default' => $_SERVER['KEPT'] ?? 'file', 'prefix' => 'plant', 'stores' => [
        'array' => ['driver' => 'array'], 'file' => ['driver' => 'file', 'path' => "{$_SERVER['OWN']}/data"]]],
    'database' => ['default' => 'mysql', 'connections' => ['mysql' => ['driver' => 'mysql', 'host' => '127.0.0.1',
        'port' => $_SERVER['DATABASE'], 'database' => 'truth', 'username' => 'truth', 'password' => '', 'charset' => 'utf8mb4',
        'collation' => 'utf8mb4_general_ci', 'prefix' => '', 'options' => [PDO::ATTR_PERSISTENT => true]]]],
    'logging' => ['default' => 'plant', 'channels' => ['plant' => ['driver' => 'single', 'path' => "{$_SERVER['OWN']}/laravel.log"]]],
    'view' => ['paths' => [dirname(__DIR__, 2) . '/views'], 'compiled' => "{$_SERVER['OWN']}/views"],
];
