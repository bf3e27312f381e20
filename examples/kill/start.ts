/**
 * `npm run demo:kill [-- [--port PORT] [--once] [--keep]]`: the same refund on a plain loop and on the chart, side
 * by side, with a button that kills both processes.
 */
import { parseArgs } from 'node:util';
import { messageOf } from '../../protocol/error.ts';
import { Demo } from './demo.ts';
import { playOnce } from './play-once.ts';
import { serveDemo } from './server/serve-demo.ts';

const USAGE = `npm run demo:kill [-- [--port PORT] [--once] [--keep]]
  --port PORT  the port of the page (default: a free port)
  --once       no page: play the worst case, print both ledgers and exit (default without a terminal)
  --keep       keep the ledgers and the journal
Exit codes: 0 success; 1 failure, with --once also if the plain loop did not pay twice or the chart did;
2 invalid arguments.`;

type Options = { port: number; once: boolean; keep: boolean };

process.stdout.on('error', () => process.exit(0));
process.exitCode = await start();

async function start(): Promise<number> {
  const options = readArguments();
  if (typeof options === 'string') return complain(options, 2);
  try {
    if (options.once) return await playOnce(say, options);
    return await serve(options);
  } catch (error) {
    return complain(messageOf(error), 1);
  }
}

function readArguments(): Options | string {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: 'string', default: '0' },
        once: { type: 'boolean', default: process.stdout.isTTY !== true },
        keep: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    });
    if (values.help === true) return USAGE;
    const port = Number(values.port);
    const isPort = /^\d+$/.test(values.port) && port <= 65_535;
    return isPort
      ? { ...values, port }
      : `Expected --port to be a number from 0 to 65535, got "${values.port}".\n${USAGE}`;
  } catch (error) {
    return `${messageOf(error)}\n${USAGE}`;
  }
}

async function serve({ port, keep }: Options): Promise<number> {
  const demo = new Demo({ keep });
  try {
    const page = await serveDemo(demo, port);
    say(`Open ${page.url}`);
    say('Approve the refund on both sides, and kill -9 their processes at any time, as often as you like.');
    say('The worst moment: the payment is in the ledger, and the tool still waits for its reply.');
    say(`Ledgers and journal: ${demo.folder}${keep ? '' : ' (deleted on exit; --keep keeps them)'}`);
    say('Ctrl-C to exit.');
    await untilInterrupted();
    await page.close();
  } finally {
    await demo.close();
  }
  return 0;
}

function untilInterrupted(): Promise<void> {
  return new Promise(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}

function complain(message: string, code: number): number {
  process.stderr.write(`${message}\n`);
  return code;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
