<section>
@if ($hall % 2)
    <h2>Hall {{ $hall }}, in the north</h2>
@else
    <h2>Hall {{ $hall }}, in the south</h2>
@endif
@for ($valve = 1; $valve <= 5; $valve++)
    <p @class(['open' => $valve % 3])>valve {{ $valve }} of hall {{ $hall }}</p>
    @unless ($valve % 3)
        @include('shut', ['valve' => $valve])
    @endunless
@endfor
</section>
