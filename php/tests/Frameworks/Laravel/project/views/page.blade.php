<h1>{{ $title }}</h1>@if (session()->has("errors")) errors @endif {{ app()->getLocale() }}
