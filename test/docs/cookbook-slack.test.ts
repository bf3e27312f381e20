import { createHmac } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { tool } from '../../tools/tool.ts';
import { importNamed } from '../support/docs/guide-blocks.ts';

const PAGE = 'cookbook/approve-from-slack';
const { askInSlack, decideFromSlack, isFromSlack } = await importNamed(PAGE, 'slack.ts');
const { SlackStandIn } = await importNamed(PAGE, 'stand-in.ts');

const SECRET = 'of-the-app';
const MANAGERS = ['U-MIA', 'U-LEO'];

describe('a signature', () => {
  // The example of https://docs.slack.dev/authentication/verifying-requests-from-slack
  const secret = '8f742231b10e8888abcd99yyyzzz85a5';
  const body =
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c';
  const signature = 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503';
  const at = 1_531_420_618;
  const headers = (given: Record<string, string> = {}) =>
    new Headers({ 'x-slack-request-timestamp': String(at), 'x-slack-signature': signature, ...given });

  test("is right for Slack's own example, up to five minutes away", () => {
    for (const seconds of [0, 300, -300])
      expect(isFromSlack(headers(), body, secret, (at + seconds) * 1000)).toBe(true);
    for (const seconds of [301, -301])
      expect(isFromSlack(headers(), body, secret, (at + seconds) * 1000)).toBe(false);
  });

  test.each([
    ['another body', headers(), `${body}&user_id=U2`],
    ['another time', headers({ 'x-slack-request-timestamp': String(at + 1) }), body],
    ['no time', headers({ 'x-slack-request-timestamp': '' }), body],
    ['a time that is no number', headers({ 'x-slack-request-timestamp': 'now' }), body],
    ['no signature', headers({ 'x-slack-signature': '' }), body],
    ['a cut signature', headers({ 'x-slack-signature': signature.slice(0, -1) }), body],
    ['upper case', headers({ 'x-slack-signature': signature.toUpperCase() }), body],
    ['letters beyond ASCII', headers({ 'x-slack-signature': `${signature.slice(0, -1)}é` }), body],
    ['another version', headers({ 'x-slack-signature': signature.replace('v0', 'v1') }), body],
  ])('is wrong with %s', (_, given, text) => {
    expect(isFromSlack(given, text, secret, at * 1000)).toBe(false);
  });

  test('of an empty secret is never asked for', () => {
    expect(() => decideFromSlack(makeAgent([]), { signingSecret: '' })).toThrow('anyone could approve');
  });
});

function makeAgent(turns: readonly ScriptedTurn[], quorum = 1) {
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ note: z.string() }),
    approval: { pure: true, rule: () => ({ required: true, by: 'managers', quorum }) },
    run: () => 'paid',
  });
  return createAgent({ name: 'refunds', model: scripted(turns), tools: [refund] });
}

const refundWith = (...notes: string[]): ScriptedTurn[] => [
  { toolCalls: notes.map(note => ({ name: 'refund', arguments: { note } })) },
  { text: 'Done.' },
];

describe('with a stand-in for Slack', () => {
  let standIn: InstanceType<typeof SlackStandIn>;
  let api: string;
  let off = () => {};
  beforeEach(async () => {
    standIn = new SlackStandIn();
    api = await standIn.start();
  });
  afterEach(() => {
    off();
    standIn.close();
  });

  function connect(agent: ReturnType<typeof makeAgent>) {
    const personOf = (user: string) =>
      MANAGERS.includes(user) ? { name: user, groups: ['managers'] } : undefined;
    const slack = { api, token: 'xoxb-1', signingSecret: SECRET, channel: 'C1', personOf };
    off = agent.on(askInSlack(agent, slack));
    const decide = decideFromSlack(agent, slack);
    const press = async (message: unknown, action: string, user: string) => {
      expect((await decide(standIn.press(message, action, user, SECRET))).status).toBe(200);
      return await standIn.next();
    };
    return { decide, press };
  }

  test('two presses at once decide once, and both see who did', async () => {
    const agent = makeAgent(refundWith('a'));
    const { decide } = connect(agent);
    const run = await agent.start('Refund.');
    const message = await standIn.next();
    await Promise.all([
      decide(standIn.press(message, 'approve', 'U-MIA', SECRET)),
      decide(standIn.press(message, 'reject', 'U-LEO', SECRET)),
    ]);
    const answers = [await standIn.next(), await standIn.next()];
    expect(answers.map(({ replace_original }) => replace_original)).toEqual([true, true]);
    expect(answers.map(({ blocks }) => blocks.at(-1)?.text?.text).toSorted()).toEqual([
      expect.stringMatching(/^(Approved by U-MIA|Rejected by U-LEO)\.$/),
      expect.stringMatching(/^Call call_0_0 was already (approved by U-MIA|rejected by U-LEO) at /),
    ]);
    expect(await run.settled()).toMatchObject({ status: 'finished' });
  });

  test('a rejection reaches the model', async () => {
    const agent = makeAgent(refundWith('a'));
    const { press } = connect(agent);
    const run = await agent.start('Refund.');
    await press(await standIn.next(), 'reject', 'U-MIA');
    const settled = await run.settled();
    expect(JSON.stringify(settled)).toContain('rejected by U-MIA');
  });

  test('each of two calls has one message, also after one is decided', async () => {
    const agent = makeAgent(refundWith('a', 'b'));
    const { press } = connect(agent);
    const run = await agent.start('Refund.');
    const messages = [await standIn.next(), await standIn.next()];
    for (const message of messages)
      expect((await press(message, 'approve', 'U-MIA')).blocks.at(-1)?.text?.text).toBe('Approved by U-MIA.');
    expect(await run.settled()).toMatchObject({ status: 'finished' });
  });

  test('with a quorum, the message keeps its buttons until enough have approved', async () => {
    const agent = makeAgent(refundWith('a'), 2);
    const { press } = connect(agent);
    const run = await agent.start('Refund.');
    const message = await standIn.next();
    expect((await press(message, 'approve', 'U-MIA')).replace_original).toBeUndefined();
    expect((await press(message, 'approve', 'U-LEO')).replace_original).toBe(true);
    expect(await run.settled()).toMatchObject({ status: 'finished' });
  });

  test('what a model wrote is plain text, and what Slack would cut has no buttons', async () => {
    const agent = makeAgent(refundWith('<!channel> *now*', 'x'.repeat(3000)));
    connect(agent);
    await agent.start('Refund.');
    const [short, long] = [await standIn.next(), await standIn.next()];
    expect(short).toMatchObject({ text: 'refund waits for a decision' });
    expect(short.blocks[0]?.text).toMatchObject({ type: 'plain_text' });
    expect(short.blocks[0]?.text?.text).toContain('<!channel> *now*');
    expect(long.blocks).toHaveLength(1);
    expect(JSON.stringify(long)).not.toContain('xxx');
  });

  test('a button whose value was made up decides nothing', async () => {
    const agent = makeAgent(refundWith('a'));
    const { press } = connect(agent);
    const run = await agent.start('Refund.');
    const message = await standIn.next();
    const forged = JSON.parse(
      JSON.stringify(message).replaceAll(
        /(digest\\":\\")[0-9a-f]+/g,
        `$1${createHmac('sha256', 'x').digest('hex')}`,
      ),
    );
    await press(forged, 'approve', 'U-MIA');
    expect(await run.settled()).toMatchObject({ status: 'waiting' });
  });
});
