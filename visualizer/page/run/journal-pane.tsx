import { describeShownEvent } from '../render/describe-event.ts';
import { formatDay, formatLine, formatTimeOfDay } from '../render/format.ts';
import { Icon } from '../ui/button.tsx';
import { VirtualList } from '../ui/scrolling.tsx';
import { useDesk } from './desk.ts';

const ROW = 30;

export function JournalPane() {
  const { model } = useDesk();
  const { story } = model;
  const at = model.at.value;
  void model.first.value;
  const nameCall = (callId: string): string => formatLine(story.nameOf(callId), 60);
  return (
    <VirtualList
      class="journal"
      label="Journal"
      count={model.last.value}
      rowHeight={ROW}
      current={at - 1}
      row={index => {
        const event = model.entry(index + 1);
        if (event === undefined) return <p class="entry muted">{index + 1} …</p>;
        const [group = ''] = event.type.split('.');
        return (
          <button
            type="button"
            class={`entry of-${group} ${event.seq === at ? 'chosen' : ''} ${event.seq > at ? 'later' : ''}`}
            aria-current={event.seq === at ? 'true' : undefined}
            onClick={() => model.choose(event.seq === model.last.peek() ? null : event.seq)}
          >
            <span class="seq">{event.seq}</span>
            <span class="type">
              {event.type === 'run.claimed' && event.replaces !== undefined && <Icon name="crash" />}
              {event.type}
            </span>
            <bdi class="about">{describeShownEvent(event, nameCall)}</bdi>
            <time title={formatDay(event.at)}>{formatTimeOfDay(event.at)}</time>
          </button>
        );
      }}
    />
  );
}
