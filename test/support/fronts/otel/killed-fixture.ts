import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { instrument } from '../../../../fronts/otel/index.ts';
import { sqlite } from '../../../../stores/sqlite.ts';
import { toRunSpan } from './record-spans.ts';
import { makeTeam, RUN } from './team.ts';

/** A process that starts the team's run and is killed in the tool of its sub-agent: `node killed-fixture.ts FOLDER`. */

const [folder = ''] = process.argv.slice(2);

const exporter = {
  export: (spans: Parameters<typeof toRunSpan>[0][], done: (result: { code: number }) => void) => {
    for (const span of spans) appendFileSync(join(folder, 'spans'), `${JSON.stringify(toRunSpan(span))}\n`);
    done({ code: 0 });
  },
  shutdown: async () => {},
};
const tracerProvider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const die = () => process.kill(process.pid, 'SIGKILL');
const team = instrument(makeTeam(sqlite(join(folder, 'runs.db')), die), { tracerProvider });
const run = await team.start('go', { runId: RUN });
await run.settled();
