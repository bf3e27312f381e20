import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';

/**
 * A process that summarises documents with `agent.map`. `node map-fixture.ts FOLDER DOCUMENTS TOKENS [DATABASE]`; a summary costs
 * 100 tokens. Files in FOLDER: `runs.db`, unless DATABASE is the address of a PostgreSQL database; `begun`, a line `document N`
 * for each model call. Prints the statuses of the results, in order, as JSON.
 */

const [folder = '', documents = '', tokens = '', database] = process.argv.slice(2);

const summary = scripted([{ text: 'A summary.', usage: { inputTokens: 90, outputTokens: 10 }, delayMs: 30 }]);

function documentIn({ transcript }: ModelRequest): string {
  const [, document = ''] = /(document \d+)/.exec(JSON.stringify(transcript)) ?? [];
  return document;
}

const model: ModelAdapter = {
  ...summary,
  async *stream(request, options) {
    appendFileSync(join(folder, 'begun'), `${documentIn(request)}\n`);
    yield* summary.stream(request, options);
  },
};

const store = database === undefined ? sqlite(join(folder, 'runs.db')) : postgres(database);
const agent = createAgent({ name: 'summariser', model, store });
const inputs = Array.from({ length: Number(documents) }, (_, place) => `Summarise document ${place}.`);
const results = await agent.map(inputs, {
  labels: { job: 'summaries' },
  concurrency: 4,
  limits: { tokens: Number(tokens) },
});
await store.close();
process.stdout.write(JSON.stringify(results.map(({ status }) => status)));
