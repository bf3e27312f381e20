/** `node hold-credentials.ts FILE`: begins to change the credentials in a file, prints `held`, and never ends. */
import { setInterval } from 'node:timers';
import { credentialsFile } from '../../../../tools/mcp.ts';

const [file = ''] = process.argv.slice(2);
await credentialsFile(file).exclusively?.(async ({ set }) => {
  await set('key', 'half');
  console.log('held');
  setInterval(() => {}, 60_000);
  await new Promise(() => {});
});
