// Reloads the page when its server restarts or its files change, and shows errors of the script (`fermata dev`).
(() => {
    // A fetched fragment may contain this script again; browsers limit concurrent streams, so run it only once.
    if (window.fermataReload) {
        return;
    }
    window.fermataReload = true;
    const RETRY_MS_MIN = 20, RETRY_MS_MAX = 500;
    let generation, pages, box, pause = RETRY_MS_MIN;
    const show = (failure) => {
        box?.remove();
        box = undefined;
        if (!failure) {
            return;
        }
        box = document.createElement('div');
        box.id = 'fermata-failure';
        box.style.cssText = 'position:fixed;inset:auto 0 0 0;max-height:60vh;overflow:auto;z-index:2147483647;background:#fff;'
            + 'color:#222;border-top:4px solid #b00;padding:1em;font:14px monospace;white-space:pre-wrap';
        const title = document.createElement('b');
        title.textContent = failure.message + (failure.file ? '\n' + failure.file + ' : ' + failure.line : '') + '\n\n';
        box.append(title);
        for (const [number, text] of failure.source) {
            const line = document.createElement('div');
            line.textContent = String(number).padStart(5) + '  ' + text;
            line.style.background = number === failure.line ? '#fdd' : '';
            box.append(line);
        }
        document.body.append(box);
    };
    const listen = () => {
        const events = new EventSource('/.fermata/reload');
        events.addEventListener('state', (event) => {
            const state = JSON.parse(event.data);
            if ((generation ?? state.generation) !== state.generation || (pages ?? state.pages) !== state.pages) {
                events.close();
                location.reload();
                return;
            }
            ({ generation, pages } = state);
            pause = RETRY_MS_MIN;
            show(state.failure);
        });
        events.addEventListener('error', () => {
            // Browsers do not retry after some errors, so reconnect here; the server restarts soon.
            events.close();
            setTimeout(listen, pause);
            pause = Math.min(pause * 1.2, RETRY_MS_MAX);
        });
    };
    listen();
})();
