<?php
// Fills a new WordPress: a blog with a few posts, stories to be read next, and valves of a shop with their fields.
define('WP_INSTALLING', true);
const STORIES = 600, VALVES = 30000, RED = 50;

require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';

/** There is nobody to write to. */
function wp_new_blog_notification() {
}

wp_install('Truth', 'truth', 'truth@example.org', true, '', 'truth');
switch_theme('truth');
foreach (range(1, 5) as $n) {
    wp_insert_post(['post_title' => "Post $n", 'post_content' => str_repeat('Open and shut. ', 20), 'post_status' => 'publish']);
}
foreach (['story' => STORIES, 'valve' => VALVES] as $type => $number) {
    $wpdb->query("insert into $wpdb->posts (post_title, post_type, post_status, post_date, post_content, post_excerpt, to_ping, pinged,
        post_content_filtered) select concat('$type ', seq), '$type', 'publish', now() - interval seq minute, '', '', '', '', ''
        from seq_1_to_$number");
}
$wpdb->query("insert into $wpdb->postmeta (post_id, meta_key, meta_value)
    select id, 'colour', if(id % " . VALVES / RED . " = 0, 'red', 'blue') from $wpdb->posts where post_type = 'valve'");
$wpdb->query("insert into $wpdb->postmeta (post_id, meta_key, meta_value)
    select post_id, 'is_red', '1' from $wpdb->postmeta where meta_key = 'colour' and meta_value = 'red'");
$wpdb->query("analyze table $wpdb->posts, $wpdb->postmeta");
