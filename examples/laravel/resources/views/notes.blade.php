<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Notes</title>
<link rel="stylesheet" href="/style.css">
<h1>Notes</h1>
<form method="post" action="/notes">
  @csrf
  <input name="name" value="{{ $name }}" placeholder="Your name" required>
  <input name="text" placeholder="A note" required autofocus>
  <button>Pin it</button>
</form>
<ul id="notes">
@foreach ($notes as $note)
  <li><b>{{ $note['by'] }}</b>: <span>{{ $note['text'] }}</span></li>
@endforeach
</ul>
<script>
  new EventSource('/events').addEventListener('note', (event) => {
    const { by, text } = JSON.parse(event.data);
    const item = document.createElement('li');
    const name = document.createElement('b');
    name.textContent = by;
    item.append(name, `: ${text}`);
    document.getElementById('notes').prepend(item);
  });
</script>
</html>
