import { makeAct } from './commands/act.ts';
import { followRun } from './follow-run.ts';
import { makeChartPane } from './panes/chart-pane.ts';
import { makeComposer } from './panes/composer.ts';
import { makeConversationPane } from './panes/conversation-pane.ts';
import { makeJournalPane } from './panes/journal-pane.ts';
import { makeRunHeader } from './panes/run-header.ts';
import { h } from './render/element.ts';
import { RunModel } from './run-model.ts';

/** Shows one run: header, conversation, chart and journal, drawn at most once per frame. */
export function showRunPage(page: Element, runId: string): void {
  let scheduled = false;
  const model = new RunModel(runId, () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  });
  const { look } = followRun(model, error => {
    page.replaceChildren(
      h(
        'main',
        { class: 'missing' },
        h('h1', {}, 'Run not found'),
        h('p', {}, error.message),
        h('a', { href: '/' }, 'All runs'),
      ),
    );
  });
  const act = makeAct(model, look);
  const header = makeRunHeader(runId, act);
  const chart = makeChartPane();
  const conversation = makeConversationPane(runId, act);
  const journal = makeJournalPane(entry => chart.point(entry));
  const composer = makeComposer(runId, act);
  conversation.element.append(composer.element);

  const draw = (): void => {
    scheduled = false;
    header.update(model);
    chart.update(model);
    journal.update(model.entries);
    composer.update(model);
    conversation.update(model.conversation);
  };
  page.replaceChildren(
    header.element,
    h('main', { class: 'panes' }, conversation.element, chart.element, journal.element),
  );
  draw();
}
