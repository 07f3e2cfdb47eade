package Shop::View::Page;
use Moose;
use namespace::autoclean;

extends "Catalyst::View::TT";

__PACKAGE__->config(TEMPLATE_EXTENSION => ".tt", INCLUDE_PATH => Shop->config->{root}, render_die => 1);

__PACKAGE__->meta->make_immutable;

1;
