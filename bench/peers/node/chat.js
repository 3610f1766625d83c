'use strict';
// The page of seed 000's Node server and the chat of its PHP server, on Node's HTTP server.
const fs = require('node:fs');
const http = require('node:http');

const [port, pageFile] = process.argv.slice(2);
const page = fs.readFileSync(pageFile, 'utf8');
const tabs = new Map(); // user -> Set of held responses
const kept = new Map(); // user -> messages received while offline

function tell(user, text) {
  for (const tab of tabs.get(user) ?? []) tab.write(`data: ${text}\n\n`);
}

function tellAll(text) {
  for (const user of tabs.keys()) tell(user, text);
}

function send(from, text) {
  const space = text.indexOf(' ');
  if (space < 1) return 400;
  const target = text.slice(0, space);
  const message = text.slice(space + 1);
  if (target === 'all') {
    tellAll(`${from} to all: ${message}`);
  } else if (tabs.has(target)) {
    if (target !== from) tell(target, `${from}: ${message}`);
    tell(from, `You to ${target}: ${message}`);
  } else {
    const line = `${from} (${new Date().toISOString()}): ${message}`;
    kept.set(target, [...(kept.get(target) ?? []), line]);
    tell(from, `You to ${target} (offline): ${message}`);
  }
  return 202;
}

function hold(user, request, response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  response.write(`data: Welcome ${user}!\n\ndata: now online: ${[...tabs.keys()].join(', ')}\n\n`);
  for (const line of kept.get(user) ?? []) response.write(`data: ${line}\n\n`);
  kept.delete(user);
  tellAll(`${user} has joined.`);
  if (!tabs.has(user)) tabs.set(user, new Set());
  tabs.get(user).add(response);
  request.on('close', () => {
    tabs.get(user).delete(response);
    if (tabs.get(user).size > 0) return;
    tabs.delete(user);
    tellAll(`${user} has left.`);
  });
}

http.createServer((request, response) => {
  const parts = request.url.split('/');
  if (request.url === '/') {
    response.writeHead(200, { 'Content-Type': 'text/html; charset=UTF-8' });
    response.end(page);
  } else if (parts[1] === 'msg' && parts.length === 4) {
    response.writeHead(send(decodeURIComponent(parts[2]), decodeURIComponent(parts[3])), { 'Content-Length': 0 });
    response.end();
  } else if ((request.headers.accept ?? '').includes('text/event-stream')) {
    hold(decodeURIComponent(parts[1]), request, response);
  } else {
    response.writeHead(404);
    response.end();
  }
}).listen(Number(port), '127.0.0.1');
