/** The third process: what became of a user's runs.   node outcome.ts USER */
import { desk, store } from './desk.ts';

const user = process.argv[2] ?? '7';
const { runs } = await store.list({ agent: desk.name, labels: { user }, order: 'asc' });
for (const { runId, status } of runs) {
  const run = await desk.open(runId, { labels: { user } });
  const settled = status === 'finished' ? await run.settled() : undefined;
  const paid = settled?.status === 'finished' ? settled.results.filter(({ isError }) => !isError) : [];
  console.log(runId, status, ...paid.map(({ output }) => JSON.stringify(output)));
}
await store.close();
