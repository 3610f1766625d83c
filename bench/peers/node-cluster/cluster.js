'use strict';
// `node cluster.js SCRIPT WORKERS PORT ...`: runs a script of peers/node in WORKERS processes.
const cluster = require('node:cluster');
const path = require('node:path');

const [script, workers, ...rest] = process.argv.slice(2);
if (cluster.isPrimary) {
  for (let worker = 0; worker < Number(workers); worker++) {
    cluster.fork();
  }
  process.on('SIGTERM', () => process.exit(0));
} else {
  process.argv.splice(2, process.argv.length, ...rest);
  require(path.join(__dirname, '../node', script));
}
