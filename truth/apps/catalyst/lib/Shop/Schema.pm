package Shop::Schema;
use strict;
use warnings;
use parent "DBIx::Class::Schema";

__PACKAGE__->load_namespaces;

1;
