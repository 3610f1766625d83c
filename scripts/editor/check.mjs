// Runs Intelephense on PHP scripts that use the Composer package, with and without its stubs, and checks its diagnostics.
//
//   node scripts/editor/check.mjs FOLDER      FOLDER contains node_modules/intelephense
//
// A correct script must produce no diagnostics, and a wrong script must produce some. Without the stubs the correct script must
// also produce diagnostics; otherwise Intelephense did not analyse it.
import {spawn} from 'node:child_process';
import {cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const PATIENCE_MS = 120_000;
const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..');
const server = join(process.argv[2], 'node_modules', 'intelephense', 'lib', 'intelephense.js');

/** The language server, connected by its standard input and output. */
class Server {
    #process;
    #buffer = Buffer.alloc(0);
    #answers = new Map();
    #id = 0;
    #diagnostics = new Map();
    #waiting = [];
    #indexed = false;

    constructor() {
        this.#process = spawn(process.execPath, [server, '--stdio'], {stdio: ['pipe', 'pipe', 'ignore']});
        this.#process.stdout.on('data', data => this.#take(data));
    }

    #take(data) {
        this.#buffer = Buffer.concat([this.#buffer, data]);
        for (;;) {
            const end = this.#buffer.indexOf('\r\n\r\n');
            if (end < 0) return;
            const length = Number(/Content-Length: (\d+)/i.exec(this.#buffer.subarray(0, end).toString())[1]);
            if (this.#buffer.length < end + 4 + length) return;
            const message = JSON.parse(this.#buffer.subarray(end + 4, end + 4 + length));
            this.#buffer = this.#buffer.subarray(end + 4 + length);
            this.#handle(message);
        }
    }

    #handle(message) {
        if (message.method && message.id !== undefined) {
            // A request of the language server: for settings, or to register a capability.
            const result = message.method === 'workspace/configuration' ? message.params.items.map(() => ({})) : null;
            this.#send({id: message.id, result});
        } else if (message.id !== undefined) {
            this.#answers.get(message.id)?.(message.result);
        } else if (message.method === 'indexingEnded') {
            this.#indexed = true;
        } else if (message.method === 'textDocument/publishDiagnostics') {
            this.#diagnostics.set(message.params.uri, message.params.diagnostics);
        }
        this.#waiting = this.#waiting.filter(it => !it());
    }

    #send(message) {
        const body = JSON.stringify({jsonrpc: '2.0', ...message});
        this.#process.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    }

    notify(method, params) {
        this.#send({method, params});
    }

    ask(method, params) {
        const id = ++this.#id;
        this.#send({id, method, params});
        return new Promise(resolve => this.#answers.set(id, resolve));
    }

    #until(what, happened) {
        return new Promise((resolve, reject) => {
            const timer = setTimeout(() => reject(new Error(`the language server did not ${what}`)), PATIENCE_MS);
            const look = () => happened() && (clearTimeout(timer), resolve(), true);
            if (!look()) this.#waiting.push(look);
        });
    }

    indexed() {
        return this.#until('index the folder', () => this.#indexed);
    }

    /** Opens a file and returns its diagnostics. */
    async open(file) {
        const uri = pathToFileURL(file).href;
        this.notify('textDocument/didOpen', {textDocument: {uri, languageId: 'php', version: 1, text: readFileSync(file, 'utf8')}});
        await this.#until(`judge ${file}`, () => this.#diagnostics.has(uri));
        return this.#diagnostics.get(uri);
    }

    end() {
        this.#process.kill();
    }
}

/** @returns {Promise<Object<string, string[]>>} diagnostics by script */
async function judge(withStubs) {
    const folder = mkdtempSync(join(tmpdir(), 'fermata-editor-'));
    const language = new Server();
    try {
        const library = join(folder, 'vendor', 'fermata', 'fermata');
        mkdirSync(library, {recursive: true});
        for (const part of ['composer.json', 'src', ...(withStubs ? ['stubs'] : [])]) {
            cpSync(join(root, 'php', part), join(library, part), {recursive: true});
        }
        const rootUri = pathToFileURL(folder).href;
        await language.ask('initialize', {
            processId: process.pid,
            rootUri,
            workspaceFolders: [{uri: rootUri, name: 'program'}],
            capabilities: {workspace: {configuration: true, workspaceFolders: true}, textDocument: {publishDiagnostics: {}}},
            initializationOptions: {storagePath: join(folder, '.storage'), clearCache: true},
        });
        language.notify('initialized', {});
        await language.indexed();
        const complaints = {};
        for (const name of ['wrong', 'good']) {
            const file = join(folder, `${name}.php`);
            writeFileSync(file, readFileSync(join(here, `${name}.php`)));
            // Severity 4 is a hint, such as an unused variable.
            const found = (await language.open(file)).filter(it => it.severity !== 4);
            complaints[name] = found.map(it => `${name}.php:${it.range.start.line + 1}: ${it.message}`);
        }
        return complaints;
    } finally {
        language.end();
        rmSync(folder, {recursive: true, force: true});
    }
}

let passed = 0;
let failed = 0;
function report(what, isGood, lines) {
    console.log(`${what}: ${isGood ? 'good' : 'FAILED'}`);
    isGood ? passed++ : failed++;
    if (!isGood) console.log(lines.join('\n'));
}
const [with_, without] = [await judge(true), await judge(false)];
report('a right program has no complaints', with_.good.length === 0, with_.good);
const wrongLines = readFileSync(join(here, 'wrong.php'), 'utf8').split('\n').findIndex(it => it.startsWith('$server->gets')) + 1;
for (let line = wrongLines; line < wrongLines + 7; line++) {
    report(`line ${line} of a wrong program is found`, with_.wrong.some(it => it.startsWith(`wrong.php:${line}:`)), with_.wrong);
}
report('without the stubs the right program has complaints', without.good.length >= 10, without.good);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
