<!doctype html>
<html><head><title>{{ $title }}</title></head><body>
<h1>{{ $title }}</h1>
