import { connect } from 'node:net';
import { setInterval } from 'node:timers';
import { describe, expect, test } from 'vitest';
import { sqlite } from '../../../stores/sqlite.ts';
import { built } from '../../support/built.ts';
import { AGENT, calling, Desk, REFUND, typesOf } from '../../support/cli/desk.ts';
import { inAll, TAKES_ALL } from '../../support/sample.ts';
import { countTo, until } from '../../support/server/runs-app.ts';
import { getAs, ServedDesk, upload, Watcher } from '../../support/server/served-desk.ts';
import { findPort } from '../../support/stores/postgres-server.ts';

const done = { text: 'Done.' };

describe.concurrent('agentchart serve', () => {
  test('prints its address, agents and database, serves its page, and exits 0', async () => {
    const desk = new Desk([done]);
    const served = await ServedDesk.start(desk);
    expect(served.url).toMatch(/^http:\/\/127\.0\.0\.1:\d{2,5}$/);
    expect(served.port).not.toBe(0);
    expect(await (await fetch(`${served.url}/healthz`)).json()).toEqual({
      ok: true,
      version: expect.any(String),
    });
    const page = await fetch(`${served.url}/`, { headers: { accept: 'text/html' } });
    expect(page.headers.get('content-security-policy')).toContain("script-src 'self'");
    const files = [...(await page.text()).matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path);
    expect(files).toContain('/assets/page.js');
    for (const path of files) expect((await fetch(served.url + path)).status).toBe(200);
    const ended = await served.stop('SIGINT');
    expect(ended.code).toBe(0);
    expect(ended.stdout).toBe('');
    expect(ended.stderr).toMatch(/runs +\.agentchart\/runs\.db\n/);
    expect(ended.stderr).toMatch(/agents +desk\n/);
  });

  test('without --agent serves a default agent on AGENTCHART_MODEL', async () => {
    const served = await ServedDesk.start(new Desk([done]), { args: [] });
    const runId = await served.begin();
    const end = await served.viewOnce(runId, ({ status }) => status === 'finished');
    expect(end).toMatchObject({ agent: 'assistant', answer: 'Done.' });
    await served.stop();
  });

  inAll('without an agent and a model shows runs and starts none', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    const served = await ServedDesk.start(desk, { args: [] }, {});
    expect(await served.view(runId)).toMatchObject({ status: 'waiting', availableAgent: false });
    expect((await served.post('/runs', { input: 'go' })).status).toBe(503);
    expect((await served.stop()).stderr).toContain('agents   none');
  });

  test('says which agents have no model', async () => {
    const served = await ServedDesk.start(new Desk([done]), { args: ['--agent', AGENT] }, {});
    expect((await served.post('/runs', { input: 'go' })).status).toBe(503);
    expect((await served.stop()).stderr).toContain('No model, so no new runs: desk. Set AGENTCHART_MODEL.');
  });

  inAll('on a port in use exits 1 and says what to do', async () => {
    const desk = new Desk([done]);
    const served = await ServedDesk.start(desk);
    const second = await desk.run(['serve', '--port', String(served.port)], desk.model);
    expect(second.code).toBe(1);
    expect(second.stderr).toContain('--port 0');
    await served.stop();
  });

  test.each([
    [['--host', '0.0.0.0'], 'AGENTCHART_TOKEN'],
    [['--host', '::'], 'AGENTCHART_TOKEN'],
    [['--host', 'example.com'], 'AGENTCHART_TOKEN'],
    [['--port', 'http'], '--port must be a number'],
    [['--port', '65536'], '--port must be a number'],
    [['--token', ''], '--token must not be empty'],
    [['--agent', 'absent.ts'], 'absent.ts'],
    [['--agent', AGENT, '--agent', AGENT], 'Two agents are named "desk"'],
  ])('%j exits 2', async (args, expected) => {
    const desk = new Desk([done]);
    const ended = await desk.run(['serve', '--port', '0', ...args], desk.model);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(expected);
  });

  test('on all interfaces requires its token, and never prints it', async () => {
    const environment = { AGENTCHART_TOKEN: 'hunter2-hunter2' };
    const desk = new Desk([done], environment);
    const served = await ServedDesk.start(desk, { args: ['--agent', AGENT, '--host', '0.0.0.0'] });
    const url = `http://127.0.0.1:${served.port}/runs`;
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: { authorization: 'Bearer hunter2-hunter2' } })).status).toBe(200);
    const ended = await served.stop();
    expect(ended.stderr + ended.stdout).not.toContain('hunter2');
  });

  test('a body of 100 MB is refused before it is read, however it is sent, and the server keeps running', async () => {
    const served = await ServedDesk.start(new Desk([done]));
    const json = { 'content-type': 'application/json' };
    const announced = { ...json, 'content-length': String(100 * 1024 * 1024) };
    expect(await upload(`${served.url}/runs`, 100, announced)).toBe(413);
    expect(await upload(`${served.url}/runs`, 100, json)).toBe(413);
    expect(await (await fetch(`${served.url}/runs`)).json()).toEqual({ runs: [] });
    await served.stop();
  });

  inAll('cannot be reached under another name', async () => {
    const served = await ServedDesk.start(new Desk([done]));
    const answers = await Promise.all(
      ['evil.example', 'a b', 'localhost.evil.example'].map(host => getAs(host, `${served.url}/runs`)),
    );
    expect(answers.map(({ status }) => status)).toEqual([403, 400, 403]);
    for (const { headers } of answers) expect(headers['x-content-type-options']).toBe('nosniff');
    await served.stop();
  });
});

describe.concurrent('a run that clients watch', () => {
  inAll('is followed over a restart of the server without a gap or a repeat', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const first = await ServedDesk.start(desk, { port: await findPort() });
    const runId = await first.begin();
    const watcher = new Watcher(`${first.url}/runs/${runId}/events`);
    await watcher.sees('turn.completed');
    expect((await first.stop()).code).toBe(0);
    const second = await ServedDesk.start(desk, { port: first.port });
    expect((await second.post(`/runs/${runId}/approve`, { callId: 'call_0_0', by: 'ada' })).status).toBe(200);
    expect(await watcher.seesEnd()).toBe('finished');
    const journal = await desk.journal(runId);
    expect(watcher.seqs).toEqual(countTo(journal.length));
    expect(watcher.journal).toEqual(journal);
    await second.stop();
  });

  test('shows decisions of the command line, and the error for a second decision names who decided', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const served = await ServedDesk.start(desk);
    const runId = await served.begin();
    const watchers = [1, 2].map(() => new Watcher(`${served.url}/runs/${runId}/events`));
    await Promise.all(watchers.map(watcher => watcher.sees('turn.completed')));
    const approved = await desk.run(['approve', runId, 'call_0_0', '--by', 'ada']);
    expect(approved.code).toBe(0);
    for (const watcher of watchers) {
      expect(await watcher.seesEnd()).toBe('finished');
      expect(await watcher.sees('approval.decided')).toMatchObject({ by: 'ada' });
      expect(watcher.seqs).toEqual(countTo(watcher.journal.length));
    }
    const late = await served.post(`/runs/${runId}/reject`, { callId: 'call_0_0', by: 'bob' });
    expect(late.status).toBe(409);
    expect(await late.json()).toMatchObject({ error: { code: 'already-decided', by: 'ada' } });
    await served.stop();
  });

  test('cannot be decided by the command line once a client decided it', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const served = await ServedDesk.start(desk);
    const runId = await served.begin();
    await served.viewOnce(runId, ({ status }) => status === 'waiting');
    await served.post(`/runs/${runId}/approve`, { callId: 'call_0_0', by: 'ada' });
    const late = await desk.run(['reject', runId, 'call_0_0']);
    expect(late.code).toBe(4);
    expect(late.stderr).toContain('approved by ada');
    await served.stop();
  });

  async function finishUnread(words: number) {
    const desk = new Desk([calling(REFUND), { text: 'word '.repeat(words) }]);
    const served = await ServedDesk.start(desk);
    const runId = await served.begin();
    await served.viewOnce(runId, ({ status }) => status === 'waiting');
    const socket = connect(served.port, '127.0.0.1');
    const closed = new Promise(gone => socket.on('close', gone));
    socket.on('error', () => {});
    socket.write(`GET /runs/${runId}/events HTTP/1.1\r\nHost: 127.0.0.1:${served.port}\r\n\r\n`);
    await new Promise(received => socket.once('data', received));
    socket.pause();
    await served.post(`/runs/${runId}/approve`, { callId: 'call_0_0' });
    await served.viewOnce(runId, ({ status }) => status === 'finished');
    const chunks: Buffer[] = [];
    socket.on('data', chunk => chunks.push(chunk));
    socket.resume();
    return { served, socket, closed, received: () => Buffer.concat(chunks).toString() };
  }

  inAll(
    'continues while a client stops reading, and the client gets all events once it reads again',
    async () => {
      const { served, socket, received } = await finishUnread(100_000);
      await until(() => (received().includes('event: end') ? true : undefined));
      expect(received()).toContain('"type":"turn.completed"');
      socket.destroy();
      await served.stop();
    },
  );

  test('continues when a client falls too far behind, and the client is disconnected', async () => {
    const { served, closed, received } = await finishUnread(400_000);
    await closed;
    expect(received()).not.toContain('event: end');
    await served.stop();
  });
});

describe.concurrent('a server that exits', () => {
  test('by kill -9 leaves a run that the next server picks up immediately', async () => {
    const desk = new Desk([calling('crawl'), done]);
    const first = await ServedDesk.start(desk, { port: await findPort() });
    const runId = await first.begin();
    const watcher = new Watcher(`${first.url}/runs/${runId}/events`);
    await watcher.sees('tool.started');
    await first.stop('SIGKILL');
    const second = await ServedDesk.start(desk, { port: first.port });
    expect(await watcher.seesEnd()).toBe('finished');
    expect(watcher.journal).toEqual(await desk.journal(runId));
    const starts = watcher.journal.filter(event => event.type === 'tool.started');
    expect(new Set(starts.map(({ key }) => key)).size).toBe(1);
    expect((await second.stop()).stderr).toContain(`resuming ${runId}`);
  });

  test('by SIGTERM lets a call in progress end and releases its lease: no doubt, no standstill', async () => {
    const desk = new Desk([calling('settle'), done]);
    const first = await ServedDesk.start(desk);
    const runId = await first.begin();
    const watcher = new Watcher(`${first.url}/runs/${runId}/events`);
    await watcher.sees('tool.started');
    watcher.close();
    const ended = first.stop();
    await first.started.printed('Stopping');
    desk.write('ready', '');
    expect((await ended).code).toBe(0);
    expect(typesOf(await desk.journal(runId)).at(-1)).toBe('tool.settled');
    const store = sqlite(desk.store);
    expect(await store.get(runId)).toMatchObject({ status: 'running', epoch: 1 });
    expect(await store.get(runId)).not.toHaveProperty('owner');
    await store.close();
    const second = await ServedDesk.start(desk);
    await second.viewOnce(runId, ({ status }) => status === 'finished');
    const claims = (await desk.journal(runId)).filter(({ type }) => type === 'run.claimed');
    expect(claims).toHaveLength(2);
    expect(claims[1]).not.toHaveProperty('replaces');
    await second.stop();
  });

  test.each(TAKES_ALL ? ['wait', 'ignore'] : ['ignore'])(
    'by SIGTERM leaves its runs resumable, with a tool that can %s after the grace time',
    async tool => {
      const desk = new Desk([calling(tool), done]);
      const first = await ServedDesk.start(desk, { args: ['--agent', AGENT, '--grace', '0.2'] });
      const runId = await first.begin();
      const watcher = new Watcher(`${first.url}/runs/${runId}/events`);
      await watcher.sees('tool.started');
      const ended = await first.stop();
      watcher.close();
      expect(ended.code).toBe(0);
      expect(ended.stderr).not.toContain('Error');
      const types = typesOf(await desk.journal(runId));
      expect(types.filter(type => type !== 'tool.late').at(-1)).toBe('tool.started');
      const second = await ServedDesk.start(desk);
      const view = await second.viewOnce(runId, ({ status }) => status === 'waiting');
      expect(view.calls).toMatchObject([{ name: tool, status: 'doubted' }]);
      await second.stop();
    },
  );

  inAll('exits immediately on a second signal', async () => {
    const desk = new Desk([calling('ignore'), done]);
    const served = await ServedDesk.start(desk);
    const runId = await served.begin();
    const watcher = new Watcher(`${served.url}/runs/${runId}/events`);
    await watcher.sees('tool.started');
    watcher.close();
    served.started.child.kill('SIGINT');
    await served.started.printed('Stopping');
    const pressing = setInterval(() => served.started.child.kill('SIGINT'), 100);
    const ended = await served.started.ended;
    clearInterval(pressing);
    expect(ended.code).toBe(130);
    expect(typesOf(await desk.journal(runId))).not.toContain('run.cancelled');
  });

  test('leaves a run that another process drives to that process', async () => {
    const desk = new Desk([calling('wait'), done]);
    const driving = desk.start(['run', '--agent', AGENT, '--json', 'go'], desk.model);
    driving.child.stdin.end();
    await driving.printed('"type":"tool.started"');
    const served = await ServedDesk.start(desk);
    const { runs } = (await (await fetch(`${served.url}/runs`)).json()) as { runs: { runId: string }[] };
    const runId = runs[0]?.runId ?? '';
    expect((await served.view(runId)).driver?.pid).toBe(driving.child.pid);
    expect((await served.post(`/runs/${runId}/cancel`, { by: 'ada' })).status).toBe(200);
    expect((await driving.ended).code).toBe(1);
    const types = typesOf(await desk.journal(runId));
    expect(types.filter(type => type === 'run.claimed')).toHaveLength(1);
    await served.stop();
  });

  inAll('leaves a run that waits for a deadline to the next server, which resumes it', async () => {
    const desk = new Desk([calling('publish'), done]);
    const args = ['--agent', built('test/support/server/fixtures/brief-approval.ts')];
    const first = await ServedDesk.start(desk, { args });
    const runId = await first.begin();
    await first.viewOnce(runId, ({ status }) => status === 'waiting');
    await first.stop('SIGKILL');
    expect(typesOf(await desk.journal(runId))).not.toContain('timer.fired');
    const second = await ServedDesk.start(desk, { args });
    const end = await second.viewOnce(runId, ({ status }) => status === 'finished');
    expect(end.answer).toBe('Done.');
    await second.stop();
  });
});
