@include('head', ['title' => 'The plant'])
@foreach ($halls as $hall)
    @include('hall', ['hall' => $hall])
@endforeach
</body></html>
