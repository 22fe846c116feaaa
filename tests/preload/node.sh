#!/bin/bash
# node: V8's own threads and heaps, buffers outside them, worker threads, compression, child processes.
source "$(dirname "$0")/common.sh"
need node

cat >"$work/script.js" <<'JS'
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');
const { execFileSync } = require('child_process');

function churn(seed) {
  let live = [];
  let sum = 0;
  for (let i = 0; i < 20000; i++) {
    const buffer = Buffer.alloc(1 + (i * 7919 + seed) % 20000, i & 255);
    live.push(buffer);
    if (live.length > 300) sum += live.splice((i * 31) % 300, 1)[0][0];
  }
  return sum;
}

if (!isMainThread) {
  parentPort.postMessage({ seed: workerData, sum: churn(workerData) });
} else {
  const text = JSON.stringify(Array.from({ length: 30000 }, (_, i) => ({ i, s: 'x'.repeat(i % 100) })));
  console.log(text.length, JSON.parse(text).length);
  const packed = zlib.deflateSync(text);
  console.log(zlib.inflateSync(packed).toString() === text);
  console.log(crypto.createHash('sha256').update(text).digest('hex'));
  console.log(execFileSync(process.execPath, ['-e', 'console.log("child")']).toString().trim());
  const workers = [1, 2, 3].map(
    (seed) => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: seed });
      worker.on('message', resolve).on('error', reject);
    }));
  Promise.all(workers).then((all) => {
    console.log(JSON.stringify(all), churn(0));
    process.exitCode = 3;
  });
}
JS
same node node "$work/script.js"
[ "$(cat "$work/hakmem.status")" = 3 ] || fail "the script did not reach its end"
served node node -e 'console.log(1)'
