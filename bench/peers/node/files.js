'use strict';
// `node files.js PORT FOLDER`: the server of seed 002. `/` is its script; `/constant` omits the loop that generates the text.
// Unlike the seed, each request has its own `fname`: a shared one lets a request read another's half-written file.
const fs = require('node:fs');
const http = require('node:http');

const [port, folder] = process.argv.slice(2);
process.chdir(folder);

http.createServer((request, response) => {
  response.writeHead(200, { 'Content-Type': 'text/plain' });

  let fname;
  do {
    fname = (1 + Math.floor(Math.random() * 99999999)) + '.txt';
  } while (fs.existsSync(fname));

  let payload = '';
  if (request.url === '/') {
    for (let i = 0; i < 108000; i++) {
      const n = Math.floor(65 + (Math.random() * (122 - 65)));
      payload += String.fromCharCode(n);
    }
  } else {
    payload = 'x'.repeat(108000);
  }

  fs.writeFile(fname, payload, (err) => {
    if (err) console.log(err);
    fs.readFile(fname, (err, data) => {
      if (err) console.log(err);
      response.end(data);
    });
  });
}).listen(Number(port), '127.0.0.1');
