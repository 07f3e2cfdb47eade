@switch ($valve)
    @case (3)
        <p>valve {{ $valve }} is shut by hand</p>
        @break
    @default
        <p>valve {{ $valve }} is shut</p>
@endswitch
