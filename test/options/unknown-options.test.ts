import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, tool } from '../../agent/index.ts';
import { describeUnknown, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { turns } from '../../runner/index.ts';
import { type Given, OPTION_TABLE } from '../support/options/option-table.ts';

const refusal = async (call: () => unknown) => {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return 'accepted';
};

describe.each(Object.entries(OPTION_TABLE))(
  '%s',
  (_, { name, call, code = 'agent-invalid', isOnPage = false }) => {
    test('refuses an unknown name with the known ones', async () => {
      const message = expect.stringMatching(
        new RegExp(`unknown option "zzz" of .*; expected one of .*${name}`),
      );
      const refused = await refusal(() => call({ zzz: undefined }));
      expect(refused).toMatchObject(isOnPage ? { name: 'TypeError', message } : { code, message });
    });

    test('refuses a misspelt name with the one that was meant', async () => {
      const typo = `${name.slice(0, -1)}x${name.slice(-1)}`;
      const message = expect.stringContaining(`unknown option "${typo}" of`);
      const hint = expect.stringMatching(new RegExp(`; did you mean "${name}"\\?$`));
      const refused = await refusal(() => call({ [typo]: 1 }));
      expect(refused).toMatchObject(isOnPage ? { name: 'TypeError', message } : { code, message });
      if (!isOnPage) expect(refused).toMatchObject({ message: hint });
    });
  },
);

const model = scripted([]);
const agent = createAgent({ name: 'desk', model });
const basics = { name: 'pay', description: 'Pays.', input: z.object({}) };

/** The names of other libraries, by what they are here, and the function that is given them. */
const ELSEWHERE: [hint: string, names: string[], call: (given: Given) => unknown][] = [
  ['approval', ['needsApproval', 'requireApproval'], aTool],
  ['run', ['execute', 'func'], aTool],
  ['input', ['parameters', 'schema'], aTool],
  ['output', ['outputSchema'], aTool],
  ['runContext', ['contextSchema'], aTool],
  ['retries', ['maxRetries'], aTool],
  ['timeoutMs', ['timeout'], aTool],
  [
    'limits: { turns }',
    ['maxTurns', 'maxSteps', 'stopWhen', 'recursion_limit', 'recursionLimit', 'maxIterations'],
    anAgent,
  ],
  ['instructions', ['system', 'systemPrompt', 'system_prompt', 'prompt'], anAgent],
  ['output', ['outputType', 'response_format', 'responseFormat'], anAgent],
  ['toolChoice', ['toolsChoice'], anAgent],
  ['store', ['checkpointer'], anAgent],
  ['settings', ['modelSettings'], anAgent],
  ['settings: { temperature }', ['temperature'], anAgent],
  ['settings: { maxOutputTokens }', ['max_tokens', 'maxOutputTokens'], anAgent],
  ['retry: { attempts }', ['maxRetries'], anAgent],
  ['tools: [mcp({ … })]', ['mcpServers'], anAgent],
  ['guardrails', ['outputGuardrails', 'inputGuardrails'], anAgent],
  ['prepareTurn', ['prepareStep'], anAgent],
  ['turns', ['maxTurns'], limits => createAgent({ name: 'desk', model, limits })],
  ['maxOutputTokens', ['maxTokens'], settings => createAgent({ name: 'desk', model, settings })],
  ['thread', ['thread_id', 'threadId', 'session', 'conversationId', 'configurable'], aStart],
  ['continues', ['previousResponseId'], aStart],
  ['signal', ['abortSignal'], aStart],
  ['runContext', ['context'], aStart],
  ['labels', ['metadata'], aStart],
  ['limits: { turns }', ['maxTurns'], aStart],
  ['maxTurns', ['maxSteps'], given => turns(agent, 'Hello', given)],
  ['name', ['toolName'], given => agent.asTool({ name: 'ask', description: 'Asks.', ...given })],
];

test.each(ELSEWHERE)('%s is what %j of another library is here', async (hint, names, call) => {
  for (const name of names) {
    const refused = String(await refusal(() => call({ [name]: 1 })));
    expect(refused).toContain(`unknown option "${name}" of`);
    expect(refused).toContain(`did you mean ${JSON.stringify(hint)}?`);
  }
});

function anAgent(given: Given) {
  return createAgent({ name: 'desk', model, ...given });
}

function aTool(given: Given) {
  return tool({ ...basics, ...given });
}

async function aStart(given: Given) {
  await agent.start('Hello', given);
}

describe('the names of an object of options', () => {
  const known = { model: true, retries: true } as const;
  const check = (given: unknown) => refuseUnknownOptions('it', given, known);

  test('without a prototype are read as those of any other', () => {
    expect(() => check(Object.assign(Object.create(null), { model: 1 }))).not.toThrow();
    expect(() => check(Object.assign(Object.create(null), { modle: 1 }))).toThrow('did you mean "model"?');
  });

  test('do not include those of its prototype, and no symbols', () => {
    expect(() => check(Object.create({ modle: 1 }))).not.toThrow();
    expect(() => check({ [Symbol('modle')]: 1 })).not.toThrow();
  });

  test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])(
    'are unknown if only every object has them: %s',
    name => {
      expect(() => check(JSON.parse(`{ "${name}": 1 }`))).toThrow(`unknown option "${name}" of it`);
    },
  );

  test.each([
    [undefined, 'undefined'],
    [null, 'null'],
    ['model', 'a string'],
    [[], 'a list'],
    [() => ({}), 'a function'],
  ])('are those of an object only: not %s', (given, kind) => {
    expect(() => check(given)).toThrow(`expected the options of it to be an object, got ${kind}.`);
  });

  test('are shown up to 64 characters, and a longer one is compared with none', () => {
    const long = 'm'.repeat(100_000);
    expect(describeUnknown('field', long, ['model'])).toBe(
      `unknown field "${'m'.repeat(64)}…"; expected one of model`,
    );
  });
});

test.each([
  ['modle', 'model'],
  ['Model', 'model'],
  ['base_url', 'baseURL'],
  ['baseUrl', 'baseURL'],
  ['temprature', 'temperature'],
  ['maxResutlByts', 'maxResultBytes'],
  ['b', 'by'],
])('%s is a misspelling of %s', (name, meant) => {
  const known = ['by', 'on', 'now', 'model', 'baseURL', 'temperature', 'maxResultBytes', 'timeoutMs'];
  expect(describeUnknown('option', name, known)).toContain(`did you mean "${meant}"?`);
});

test.each(['key', 'zz', 'mode1lling', 'at', 'url'])('%s is no misspelling of a name', name => {
  const known = ['by', 'on', 'now', 'model', 'baseURL'];
  expect(describeUnknown('option', name, known)).toContain('expected one of');
});
