package Shop::Schema::Result::Valve;
use strict;
use warnings;
use parent "DBIx::Class::Core";

__PACKAGE__->table("valves");
__PACKAGE__->add_columns(qw(id name note));
__PACKAGE__->set_primary_key("id");
__PACKAGE__->belongs_to(counter => "Shop::Schema::Result::Counter", "id");

1;
