import * as z from 'zod';
// In a project of your own: from 'agentchart'.
import { createAgent, never, rule, tool } from '../agent/index.ts';

/*
 * An assistant that reads pages of the web and writes mails. A page may tell it to send away what it knows, so after it
 * has read one, nothing leaves without the approval of the security group:
 *
 *   agentchart explore --agent examples/exfiltration.ts            proves it
 *   LEAKS=1 agentchart explore --agent examples/exfiltration.ts    shows the shortest leak without the rule
 */

const readPage = tool({
  name: 'read_page',
  description: 'Reads a page of the web.',
  input: z.object({ url: z.url() }),
  sideEffect: 'none',
  tags: ['untrusted'],
  run: async ({ url }, { signal }) => (await fetch(url, { signal })).text(),
});

const sendMail = tool({
  name: 'send_mail',
  description: 'Sends a mail.',
  input: z.object({ to: z.email(), text: z.string() }),
  tags: ['leaves'],
  run: ({ to }) => `(In this example, no mail is sent to ${to}.)`,
});

const noLeaks = rule({
  name: 'no leaks',
  when: never('leaves').after('untrusted'),
  then: { type: 'ask', by: 'security' },
  reason: 'text from outside was read in this conversation',
  mode: process.env.LEAKS === undefined ? 'enforce' : 'shadow',
});

/** The model comes from AGENTCHART_MODEL. */
export default createAgent({
  name: 'assistant',
  description: 'Reads pages and writes mails. After it has read a page, mails wait for the security group.',
  instructions: 'You read pages of the web and write mails about them.',
  tools: [readPage, sendMail],
  rules: [noLeaks],
});
