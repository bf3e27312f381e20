import { webhook } from '../../../../agent/listening/webhook.ts';
import { sqlite } from '../../../../stores/sqlite.ts';
import { makeDesk } from './desk.ts';
import { SECRET } from './hook-receiver.ts';

/** A process that starts a run with a webhook and stays: `node hook-fixture.ts DATABASE URL`. */

const [database = '', url = ''] = process.argv.slice(2);
const agent = makeDesk(sqlite(database));
agent.on(webhook({ url, secret: SECRET }));
await agent.run('go');
setInterval(() => {}, 1_000);
