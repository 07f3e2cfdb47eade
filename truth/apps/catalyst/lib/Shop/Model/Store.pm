package Shop::Model::Store;
use Moose;
use Shop::Schema;
use namespace::autoclean;

extends "Catalyst::Model";

has schema => (is => "ro", lazy => 1, default => sub {
    Shop::Schema->connect("dbi:Pg:host=127.0.0.1;port=$ENV{DATABASE};dbname=postgres", "truth", "");
}, handles => ["resultset"]);

__PACKAGE__->meta->make_immutable;

1;
