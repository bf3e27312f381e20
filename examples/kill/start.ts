/**
 * `npm run demo:kill [-- [--port PORT] [--once] [--keep]]`: a refund on a plain loop and on the chart, side by
 * side, and a button that kills their processes.
 */
import { parseArgs } from 'node:util';
import { messageOf } from '../../protocol/error.ts';
import { Demo } from './demo.ts';
import { playOnce } from './play-once.ts';
import { serveDemo } from './server/serve-demo.ts';

const USAGE = `npm run demo:kill [-- [--port PORT] [--once] [--keep]]
  --port PORT  where the page is (default: a free port)
  --once       no page: play the worst instant, print both ledgers and end; so too without a terminal
  --keep       leave the ledgers and the journal where they are
Exit codes: 0; with --once 1 where the plain loop did not pay twice or the chart did; 2 bad usage.`;

type Asked = { port: number; once: boolean; keep: boolean };

process.stdout.on('error', () => process.exit(0));
process.exitCode = await start();

async function start(): Promise<number> {
  const asked = readArguments();
  if (typeof asked === 'string') return complain(asked, 2);
  try {
    if (asked.once) return await playOnce(say, asked);
    return await serve(asked);
  } catch (error) {
    return complain(messageOf(error), 1);
  }
}

function readArguments(): Asked | string {
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
    return isPort ? { ...values, port } : `--port takes a number from 0 to 65535.\n${USAGE}`;
  } catch (error) {
    return `${messageOf(error)}\n${USAGE}`;
  }
}

async function serve({ port, keep }: Asked): Promise<number> {
  const demo = new Demo({ keep });
  try {
    const page = await serveDemo(demo, port);
    say(`Open ${page.url}`);
    say(
      'Approve the refund on both sides, and kill their processes whenever you like: kill -9, as often as you like.',
    );
    say('The worst instant: the ledger has its line, and the tool waits for its reply.');
    say(`Ledgers and journal: ${demo.folder}${keep ? '' : ' (gone when you leave; --keep leaves them)'}`);
    say('Ctrl-C ends everything.');
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
