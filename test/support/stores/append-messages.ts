import { begin, receive } from '../../../stores/conformance/check.ts';
import { sqlite } from '../../../stores/sqlite.ts';

/**
 * A process for the tests: `FILE RUN WRITER COUNT` appends COUNT messages "WRITER 1", "WRITER 2", …
 * to RUN, which it creates if missing, and prints each number once it is stored.
 */
const [file = '', runId = '', writer = '', count = ''] = process.argv.slice(2);
const store = sqlite(file);
await store.create(begin(runId)).catch((error: { code?: string }) => {
  if (error.code !== 'run-exists') throw error;
});
let after = 1;
for (let number = 1; number <= Number(count); ) {
  const event = receive(`${writer} ${number}`);
  const result = await store.append(runId, { after, input: true }, [event], { status: 'running' });
  if (result.type === 'appended') process.stdout.write(`${number++}\n`);
  after = (await store.read(runId, after)).at(-1)?.seq ?? after;
}
await store.close();
