<?php // A theme of one page: its latest posts, and what the case's habit adds.
?><!DOCTYPE html>
<html <?php language_attributes(); ?>>
<head><title><?php bloginfo('name'); ?></title><?php wp_head(); ?></head>
<body <?php body_class(); ?>>
<?php while (have_posts()) { the_post(); ?>
<article><h2><a href="<?php the_permalink(); ?>"><?php the_title(); ?></a></h2><?php the_content(); ?></article>
<?php } ?>
<aside><?php do_action('truth_aside'); ?></aside>
<?php wp_footer(); ?>
</body>
</html>
