use strict;
use warnings;
use Shop;

# What the first query loads is loaded before the processes are forked, each of which makes a connection of its own.
if ($ENV{DATABASE}) {
    my $store = Shop->model("Store");
    $store->resultset("Valve")->search({ "me.id" => 1 }, { prefetch => "counter" })->first->counter->n;
    $store->schema->storage->disconnect;
}

Shop->psgi_app;
