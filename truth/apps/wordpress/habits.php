<?php
// A plugin that is always there, with the habit of a case: TRUTH_HABIT of wp-config.php.

/** The rate of a currency, from the service that knows it. */
function truth_rate_each_time() {
    return strlen(wp_remote_retrieve_body(wp_remote_get(TRUTH_SERVICE)));
}

function truth_rate_remembered() {
    $rate = get_transient('truth_rate');
    if ($rate === false) {
        $rate = truth_rate_each_time();
        set_transient('truth_rate', $rate, HOUR_IN_SECONDS);
    }
    return $rate;
}

/** How many red valves there are; of the fields of a post only the name has an index. */
function truth_count($meta) {
    $query = new WP_Query(['post_type' => 'valve', 'posts_per_page' => 5, 'fields' => 'ids', 'meta_query' => [$meta]]);
    return $query->found_posts;
}

/** The five newest stories, of so many that are fetched. */
function truth_stories($number) {
    $stories = get_posts(['post_type' => 'story', 'numberposts' => $number]);
    return implode(', ', wp_list_pluck(array_slice($stories, 0, 5), 'post_title'));
}

add_action('truth_aside', function () {
    switch (TRUTH_HABIT) {
        case 'rate-each-time':
            echo truth_rate_each_time();
            break;
        case 'rate-remembered':
            echo truth_rate_remembered();
            break;
        case 'stories-of-all':
            echo truth_stories(-1);
            break;
        case 'stories-of-five':
            echo truth_stories(5);
            break;
        case 'red-by-value':
            echo truth_count(['key' => 'colour', 'value' => 'red']);
            break;
        case 'red-by-name':
            echo truth_count(['key' => 'is_red', 'compare' => 'EXISTS']);
            break;
    }
});
