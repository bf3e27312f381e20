import { describe, expect, it } from 'vitest';
import { Desk } from '../../support/cli/desk.ts';
import { calling, parseStream, type Resource } from '../../support/responses/gateway.ts';
import { ServedDesk } from '../../support/server/served-desk.ts';

describe('agentchart serve', () => {
  it('serves responses of the model of the environment, whichever model the request names', async () => {
    const desk = new Desk([calling('ask'), { text: 'Thanks.' }]);
    const served = await ServedDesk.start(desk, { args: [] });
    const tools = [{ type: 'function', name: 'ask' }];
    const asked = (await (
      await served.post('/v1/responses', { model: 'gpt-5', input: 'Ask.', tools })
    ).json()) as Resource;
    expect(asked).toMatchObject({ model: 'gpt-5', output: [{ type: 'function_call', name: 'ask' }] });
    const runId = asked.id.replace('resp_', 'run_');
    expect(await served.view(runId)).toMatchObject({
      agent: 'responses',
      availableAgent: true,
      status: 'waiting',
    });
    const refused = await desk.run(['answer', runId, 'call_0_0', '--output', '"yes"']);
    expect(refused).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('started by a request to a server'),
    });
    const streamed = await served.post('/v1/responses', {
      model: 'gpt-5',
      tools,
      previous_response_id: asked.id,
      stream: true,
      input: [{ type: 'function_call_output', call_id: asked.output[0]?.call_id, output: 'yes' }],
    });
    expect(parseStream(await streamed.text()).at(-1)).toMatchObject({
      type: 'response.completed',
      response: { output: [{ content: [{ text: 'Thanks.' }] }] },
    });
    const list = await (await fetch(`${served.url}/v1/models`)).json();
    const { data } = list as { data: { id: string }[] };
    const messages = [{ role: 'user', content: 'Ask.' }];
    const chat = { model: data[0]?.id, messages, tools: [{ type: 'function', function: { name: 'ask' } }] };
    expect(await (await served.post('/v1/chat/completions', chat)).json()).toMatchObject({
      model: 'scripted',
      choices: [{ finish_reason: 'tool_calls', message: { tool_calls: [{ function: { name: 'ask' } }] } }],
    });
    const shown = await desk.run(['show', runId, '--events']);
    expect(shown.stdout).toContain('run.noted');
    expect((await served.stop()).code).toBe(0);
  });

  it('without a model reports the missing setting', async () => {
    const served = await ServedDesk.start(new Desk([]), { args: [] }, {});
    const response = await served.post('/v1/responses', { model: 'gpt-5', input: 'x' });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: {
        code: 'model_not_found',
        param: 'model',
        message: expect.stringContaining('openai:gpt-5-mini'),
      },
    });
    await served.stop();
  });
});
