import { describe, expect, test } from 'vitest';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, decideWith } from '../support/visualizer/browser.ts';
import { type DemoAgents, HOSTILE, makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

if (CHROMIUM === undefined) console.log('The page is not tested: no Chromium here (set CHROMIUM_PATH).');

const ASK = 'Ada writes that order A-1001 arrived broken. Pay back what she paid.';

describe.skipIf(CHROMIUM === undefined)('the page', () => {
  let demo: DemoAgents;
  const desk = servePages(() => {
    demo = makeDemoAgents();
    return demo.agents;
  });

  async function startAtRest(agent: string, input = ASK): Promise<string> {
    return `/runs/${(await desk.startAtRest(agent, input)).id}`;
  }

  test('a run is started, followed to its approval, approved and followed to its end', async () => {
    const watched = await desk.visit('/runs');
    const { page } = watched;
    await page.getByRole('button', { name: 'New run' }).click();
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await dialog.getByLabel('Agent').selectOption('refunds');
    await dialog.getByLabel('Input').fill(ASK);
    await dialog.getByRole('button', { name: 'Start' }).click();
    await page.locator('#state-resting-awaitingApproval.current').waitFor();
    await page.getByText('pays back 4200 cents to the customer').first().waitFor();
    await expect
      .poll(() => page.locator('.where').innerText())
      .toContain('1 call of refund needs a decision');
    await expect.poll(() => watched.countOf('state-turn')).toBe('×2');
    await page.getByRole('button', { name: 'Full chart' }).click();
    await expect.poll(() => watched.countOf('edge-deciding--turn')).toBe('×2');
    await page.getByRole('button', { name: 'Close' }).click();
    await expect.poll(() => watched.countOf('state-executingTools')).toBe('×1');
    await page.getByRole('slider', { name: 'Entry' }).press('Home');
    await expect.poll(() => page.locator('.decided').first().innerText()).toContain('the run starts');
    await page.keyboard.press('End');
    await page.getByLabel('Deciding as').fill('Grace');

    demo.gate.close();
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await page.locator('#state-turn-planning.current').waitFor();
    demo.gate.open();
    await page.locator('#state-finished.current').waitFor();
    await page.locator('.reply').getByText('Ada gets her 42.00 back').waitFor();
    await page.locator('.call-story').getByText('Approved by Grace').waitFor();
    await expect.poll(() => page.locator('.reply .mark').first().innerText()).toBe('before tool calls');
    const below = () =>
      page.evaluate(
        `((s) => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('.conversation'))`,
      );
    await expect.poll(below).toBeLessThan(2);
    expect(watched.problems).toEqual([]);
  });

  inAll('the list of runs shows their titles, and a hostile title as text', async () => {
    const titled = await startAtRest('refunds');
    const hostile = '<img src=x onerror="document.title=1">\u202ehidden';
    await startAtRest('refunds', hostile);
    const watched = await desk.visit('/runs');
    await watched.page.locator(`a[href="${titled}"]`, { hasText: ASK }).waitFor();
    await watched.page.getByText('<img src=x onerror="document.title=1">\\u{202e}hidden').waitFor();
    expect(watched.problems).toEqual([]);
  });

  inAll('text streams in; after a reload in the middle it is shown again and continues', async () => {
    demo.gate.close(3);
    const run = await desk.start('cut', 'Go');
    const watched = await desk.visit(`/runs/${run.id}`);
    const { page } = watched;
    const reply = page.locator('.reply .text');
    await reply.getByText('The answer').waitFor();
    const soFar = await reply.innerText();
    await page.reload();
    await reply.getByText(soFar, { exact: true }).waitFor();
    await page.locator('#state-turn-finalStreaming.current').waitFor();
    await expect.poll(() => page.locator('.reply .mark').innerText()).toBe('writing…');
    demo.gate.open();
    await reply.getByText('The answer begins and continues until it is').waitFor();
    await expect.poll(() => page.locator('.reply').count()).toBe(1);
    await page.locator('.notice').getByText('The answer is incomplete: length').waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('an approval with an edit shows the change first, and reports an invalid edit', async () => {
    const watched = await desk.visit(await startAtRest('refunds'));
    const { page } = watched;
    await page.getByRole('button', { name: 'Edit…' }).click();
    await page.getByRole('tab', { name: 'JSON' }).click();
    const editor = page.getByLabel('Edited input');
    const edit = (cents: string) => editor.fill(`{"orderId":"A-1001","cents":${cents},"note":"partly"}`);
    await edit('-5');
    await decideWith(page.getByRole('button', { name: 'Approve with changes' }));
    await page.getByRole('alert').filter({ hasText: 'The edited input is not valid for refund' }).waitFor();
    await edit('');
    await page.getByText('Invalid JSON').waitFor();
    await edit('2100');
    await expect
      .poll(() => page.locator('.diff-line.removed').allInnerTexts())
      .toContain('−   "cents": 4200,');
    await expect.poll(() => page.locator('.diff-line.added').allInnerTexts()).toContain('+   "cents": 2100,');
    await decideWith(page.getByRole('button', { name: 'Approve with changes' }));
    await page.locator('#state-finished.current').waitFor();
    await page.locator('.call-result').last().getByText('"refundedCents": 2100').waitFor();
    expect(watched.problems.filter(problem => !problem.includes('400'))).toEqual([]);
  });

  inAll('a rejection reaches the model with its reason', async () => {
    const { page, problems } = await desk.visit(await startAtRest('refunds'));
    await page.getByRole('button', { name: 'Reject…' }).click();
    await page.getByLabel('Reason').fill('the photo shows no damage');
    await decideWith(page.getByRole('button', { name: 'Reject', exact: true }));
    await page.locator('#state-finished.current').waitFor();
    await page.locator('.call-result').getByText('rejected: the photo shows no damage').waitFor();
    expect(problems).toEqual([]);
  });

  inAll('the second decider gets the name of the first', async () => {
    const run = await desk.startAtRest('refunds', ASK);
    const { page, problems } = await desk.visit(`/runs/${run.id}`);
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    demo.gate.close();
    await page.route('**/approve', async route => {
      await run.reject('call_1_0', { by: 'Grace' });
      await route.continue();
    });
    const notice = page.getByText('Grace already decided.').waitFor();
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await notice;
    await page.locator('.call-story').getByText('Rejected by Grace').waitFor();
    demo.gate.open();
    expect(problems.filter(problem => !problem.includes('409'))).toEqual([]);
  });

  inAll(
    'a call in doubt shows the known facts, and continues once the user confirms that it happened',
    async () => {
      const watched = await desk.visit(await startAtRest('releases'));
      const { page } = watched;
      await page.locator('#state-resting-inDoubt.current').waitFor();
      await page.getByText('the connection was lost after the request was sent').first().waitFor();
      await page.getByText('Idempotency key:').waitFor();
      await page.getByRole('button', { name: 'It happened…' }).click();
      await page.getByLabel('Its result').fill('{"url": "https://example.test"}');
      await decideWith(page.getByRole('button', { name: 'It happened', exact: true }));
      await page.locator('.reply').getByText('Version 2.4.0 is out.').waitFor();
      await expect.poll(() => watched.countOf('state-resting-inDoubt')).toBe('×1');
      expect(watched.problems).toEqual([]);
    },
  );

  inAll('a call that the client runs is answered on the page', async () => {
    const { page, problems } = await desk.visit(await startAtRest('lab'));
    await page.getByLabel('Result for the model').fill('{"metres": 3}');
    await decideWith(page.getByRole('button', { name: 'Answer' }));
    await page.locator('.reply').getByText('It is 3 m wide.').waitFor();
    expect(problems).toEqual([]);
  });

  inAll('a lost server is reported; once it is back, the run continues where it was', async () => {
    const watched = await desk.visit(await startAtRest('refunds'));
    const { page } = watched;
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    const { port } = desk;
    await desk.stop();
    await page.getByText('No response since').waitFor();
    await desk.serve(makeDemoAgents(demo.store, demo.gate).agents, { port });
    await page.locator('.connection[data-is="live"]').waitFor();
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await page.locator('#state-finished.current').waitFor();
    await page.locator('.reply').getByText('Ada gets her 42.00 back').waitFor();
    await page.getByRole('tab', { name: 'Journal 17' }).waitFor();
    expect(watched.problems.filter(problem => !problem.includes('ERR_'))).toEqual([]);
  });

  test('hostile output is text: nothing runs, nothing is fetched or reordered, and a megabyte stays folded', async () => {
    const watched = await desk.visit(await startAtRest('reader'));
    const { page } = watched;
    await page.locator('#state-finished.current').waitFor();
    const folded = page.locator('.call details:not([open]) > summary');
    const unfold = async () => {
      while ((await folded.count()) > 0) await folded.first().click();
      return await page.getByText('\\u001b[31mred').first().isVisible();
    };
    await expect.poll(unfold).toBe(true);
    await page.getByText(HOSTILE.markup).first().waitFor();
    await page.getByText('\\u001b[31mred').first().waitFor();
    await page.getByText('safe\\u{202e}txt.exe\\u{2066}\\u{200f} ␛[31mred␛[0m').first().waitFor();
    await page
      .getByRole('button', { name: /Show more \(99\d k characters left\)/ })
      .first()
      .waitFor();
    expect(await page.evaluate('document.body.textContent.length')).toBeLessThan(60_000);
    expect(await page.evaluate('[typeof owned, document.images.length, document.title]')).toEqual([
      'undefined',
      0,
      'finished · reader · Agentchart',
    ]);
    await page
      .getByRole('button', { name: /Show more/ })
      .first()
      .click();
    await page.getByRole('button', { name: /Show more \(98\d k characters left\)/ }).waitFor();
    await watched.screenshot('hostile');
    expect(watched.problems).toEqual([]);
  });

  inAll('a failed attempt is shown in its place, and a failed run gives advice', async () => {
    const retried = await desk.visit(await startAtRest('flaky'));
    await retried.page.getByText('Attempt 1 of script failed: overloaded (HTTP 529)').waitFor();
    await retried.page.locator('.reply').getByText('Here now.').waitFor();
    const broken = await desk.visit(await startAtRest('broken'));
    await broken.page.getByText('Failed: authentication', { exact: true }).waitFor();
    await broken.page.getByText("Check the provider's API key in").waitFor();
    expect([...retried.problems, ...broken.problems]).toEqual([]);
  });

  test('the message of a failure is where it happened; the chart and the inspector name its code', async () => {
    const { page } = await desk.visit(await startAtRest('broken'));
    await page.locator('.error-block').getByText('The key is not valid.').waitFor();
    await expect.poll(() => page.locator('.where').innerText()).toBe('fail authentication');
    const inspector = page.getByRole('complementary', { name: 'Inspector' });
    await expect.poll(() => inspector.locator('.decided').innerText()).toBe('→ fail authentication');
    await expect.poll(() => inspector.getByText('The key is not valid.').count()).toBe(1);
  });

  test('the buttons of a decision are beside what they decide, however wide the window is', async () => {
    const { page } = await desk.visit(await startAtRest('refunds'), { width: 1920, height: 900 });
    const box = await page.locator('.decision-bar .seen-box').boundingBox();
    const approve = await page.getByRole('button', { name: 'Approve', exact: true }).boundingBox();
    expect((approve?.x ?? 0) - (box?.x ?? 0) - (box?.width ?? 0)).toBeCloseTo(16, 0);
    expect(box?.width).toBeLessThanOrEqual(560);
  });

  inAll('a run is paused, stepped and cancelled after one confirmation', async () => {
    const watched = await desk.visit(await startAtRest('refunds'));
    const { page } = watched;
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Continue' }).waitFor();
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await page.locator('#state-resting-paused.current').waitFor();
    await page.getByRole('button', { name: 'Step' }).click();
    await page.getByText('"refundedCents": 4200').first().waitFor();
    await page.locator('#state-resting-paused.current').waitFor();
    await page.getByRole('button', { name: 'Cancel run' }).click();
    await page.getByRole('button', { name: 'Really cancel?' }).click();
    await page.locator('#state-cancelled.current').waitFor();
    await expect.poll(() => watched.countOf('state-cancelled')).toBe('×1');
    expect(watched.problems).toEqual([]);
  });

  test('a server with a token asks for it, rejects a wrong token, and remembers the right one', async () => {
    await desk.stop();
    await desk.serve(demo.agents, { token: 'open sesame' });
    const { page } = await desk.visit(await startAtRest('refunds'));
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Wrong token').waitFor();
    await page.getByLabel('Token').fill('open sesame');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.locator('#state-resting-awaitingApproval.current').waitFor();
    await page.reload();
    await page.locator('#state-resting-awaitingApproval.current').waitFor();
  });

  test('a link with the token signs in, and the address does not keep it', async () => {
    await desk.stop();
    await desk.serve(demo.agents, { token: 'token-of-the-link' });
    const path = await startAtRest('refunds');
    const { page, problems } = await desk.visit(`${path}#token=token-of-the-link`);
    await page.locator('#state-resting-awaitingApproval.current').waitFor();
    expect(page.url()).toBe(`${desk.url}${path}`);
    // It asks who it is before it signs in, and nothing else.
    expect(problems.filter(problem => !problem.endsWith('/me'))).toEqual([]);
    const other = await desk.visit(`${path}#token=wrong`);
    await other.page.getByText('Wrong token').waitFor();
    expect(other.page.url()).toBe(`${desk.url}${path}`);
  });

  inAll('an unknown run is reported as unknown', async () => {
    const { page } = await desk.visit('/runs/run_nobody');
    await page.getByRole('heading', { name: 'Run not found' }).waitFor();
  });

  inAll('an approval can be given with the keyboard alone', async () => {
    const { page, problems } = await desk.visit(await startAtRest('refunds'));
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    for (let presses = 0; presses < 60; presses += 1) {
      await page.keyboard.press('Tab');
      if ((await page.evaluate('document.activeElement.textContent')) === 'Approve') break;
    }
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    await page.locator('#state-finished.current').waitFor();
    expect(problems).toEqual([]);
  });
});
