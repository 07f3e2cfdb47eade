package Shop::Schema::Result::Counter;
use strict;
use warnings;
use parent "DBIx::Class::Core";

__PACKAGE__->table("counters");
__PACKAGE__->add_columns(qw(id n));
__PACKAGE__->set_primary_key("id");

1;
