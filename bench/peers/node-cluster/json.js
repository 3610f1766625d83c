'use strict';
// `node json.js PORT WORKERS`: the server of peers/node in as many processes as there are cores.
const cluster = require('node:cluster');

if (cluster.isPrimary) {
  for (let worker = 0; worker < Number(process.argv[3]); worker++) {
    cluster.fork();
  }
  process.on('SIGTERM', () => process.exit(0));
} else {
  require('../node/json.js');
}
