/**
 * Measures a web page from within: when something was shown, how long a picture took to draw, and how the frames came.
 * Playwright loads it into each page before the page's own scripts. Not TypeScript: browsers run it as it is.
 */
void (() => {
  const READY = {
    ready: () => document.querySelector('header.top'),
    sentence: () => document.querySelector('h1'),
    picture: () => document.querySelector('canvas.moving'),
    all: () => document.querySelector('canvas.moving') && document.querySelector('main[aria-busy=false]'),
    speedscope: () => document.title.endsWith(' - speedscope'),
  };
  /** When the user clicked last; 0 is when the page was asked for. */
  let clickedMs = 0;
  let shownMs = {};
  const longTasks = [];
  /** When the page last drew on each canvas, and last changed its text. */
  const drawnMs = new Map();
  let textMs = 0;
  const inputs = { listening: ['', null, true], isShown: () => false, pendingMs: 0, tookMs: [] };
  const playback = { isOn: false, frames: [], litMs: 0, playheadMs: 0, playheadPx: 0 };

  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) longTasks.push({ startMs: startTime, ms: duration });
  }).observe({ type: 'longtask', buffered: true });

  addEventListener(
    'click',
    ({ timeStamp }) => {
      clickedMs = timeStamp;
      shownMs = {};
    },
    true,
  );

  const drawing = CanvasRenderingContext2D.prototype;
  for (const name of ['clearRect', 'fillRect', 'strokeRect', 'drawImage', 'putImageData']) {
    const plain = drawing[name];
    drawing[name] = function (...args) {
      drawnMs.set(this.canvas, performance.now());
      if (this.canvas.className === 'moving') watchPlayed(name, args);
      return plain.apply(this, args);
    };
  }

  /** The played event has a frame, and the playhead is a line over the full height of the picture. */
  function watchPlayed(name, [leftPx, topPx, widthPx]) {
    if (name === 'strokeRect') playback.litMs = performance.now();
    if (name !== 'fillRect' || topPx !== 0 || widthPx !== 2) return;
    playback.playheadMs = performance.now();
    playback.playheadPx = leftPx + 1;
  }

  const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  /** Resolves when the browser has drawn the present frame: a message comes after it. */
  const afterFrame = () =>
    new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = resolve;
      port2.postMessage(null);
    });

  async function watch() {
    for (;;) {
      await nextFrame();
      const found = Object.keys(READY).filter((name) => shownMs[name] === undefined && READY[name]());
      await afterFrame();
      const nowMs = performance.now();
      for (const name of found) shownMs[name] = nowMs;
      if (inputs.pendingMs > 0 && inputs.isShown(inputs.pendingMs)) {
        inputs.tookMs.push(nowMs - inputs.pendingMs);
        inputs.pendingMs = 0;
      }
      if (playback.isOn) {
        const count = /event (.+) of/.exec(document.querySelector('.replay .figures')?.textContent ?? '')?.[1] ?? '0';
        const { litMs, playheadMs, playheadPx } = playback;
        playback.frames.push({
          endMs: nowMs,
          litMs,
          playheadMs,
          playheadPx,
          count: Number(count.replaceAll(/\D/g, '')),
        });
      }
    }
  }
  void watch();

  addEventListener('DOMContentLoaded', () => {
    const changed = () => {
      textMs = performance.now();
    };
    new MutationObserver(changed).observe(document, { childList: true, characterData: true, subtree: true });
  });

  const press = (code) => dispatchEvent(new KeyboardEvent('keydown', { code, bubbles: true, cancelable: true }));
  /** Canvases draw late: reading a pixel back makes them draw all that they were given. */
  const flush = (canvas) => canvas.getContext('2d').getImageData(0, 0, 1, 1);
  const canvases = () => [...document.querySelectorAll('.stack canvas')];
  const zoomTo = async (zoomSteps) => {
    press('KeyF');
    await nextFrame();
    for (let i = 0; i < zoomSteps; i++) {
      press('KeyW');
      await nextFrame();
    }
    await nextFrame();
  };

  /**
   * Calls what draws `count` times, each time in a frame of its own, and returns the milliseconds that it took. What
   * `prepare` does in the frame before is not measured.
   */
  async function timed(count, draw, prepare) {
    const tookMs = [];
    for (let i = 0; i < count; i++) {
      if (prepare) {
        await nextFrame();
        prepare();
      }
      await nextFrame();
      const startMs = performance.now();
      await draw(i);
      tookMs.push(performance.now() - startMs);
    }
    return tookMs;
  }

  globalThis.kreplayBench = {
    /** When things were first shown, since the last click or else since the page was asked for. */
    times: () => ({ sinceMs: clickedMs, shownMs, longTasks: longTasks.filter(({ startMs }) => startMs >= clickedMs) }),

    /**
     * The page's own picture, moved by keys: from the key to the drawn pixels. The picture of all events cannot be moved,
     * and a key that would move it draws nothing: it is measured as it comes back after a part of it.
     */
    async draws(zoomSteps, count) {
      await zoomTo(zoomSteps);
      const isAll = zoomSteps === 0;
      const draw = async (i) => {
        press(isAll ? 'KeyS' : i % 2 === 0 ? 'KeyA' : 'KeyD');
        // The page renders in a microtask.
        await Promise.resolve();
        await Promise.resolve();
        for (const canvas of canvases()) flush(canvas);
      };
      return timed(count, draw, isAll ? () => press('KeyW') : undefined);
    },

    /** The same size, and nothing to draw. */
    emptyDraws: (count) =>
      timed(count, async () => {
        for (const canvas of canvases()) {
          canvas.getContext('2d').clearRect(0, 0, canvas.width, canvas.height);
          flush(canvas);
        }
      }),

    /** A rectangle for each column of each lane that has an event; finding the columns is not measured. */
    async naiveDraws(transactionId, share, count) {
      lanes ??= await readLanes(transactionId);
      const columns = canvases()[0].width;
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [columns, canvases()[0].height];
      document.body.append(canvas);
      const context = canvas.getContext('2d');
      const endNs = Math.max(...lanes.map(({ ends }) => ends.at(-1)));
      const view = { fromNs: ((1 - share) / 2) * endNs, nsPerColumn: (share * endNs) / columns };
      const colours = lanes.map((lane) => coloursOf(lane, view, columns));
      const heightPx = canvas.height / lanes.length;
      const tookMs = await timed(count, async () => {
        context.clearRect(0, 0, columns, canvas.height);
        for (const [at, ofLane] of colours.entries())
          for (let column = 0; column < columns; column++) {
            if (ofLane[column] === undefined) continue;
            context.fillStyle = ofLane[column];
            context.fillRect(column, at * heightPx, 1, heightPx - 2);
          }
        flush(canvas);
      });
      canvas.remove();
      return tookMs;
    },

    /** Zooms and moves in every frame, and returns the milliseconds between frames. */
    async frames(seconds) {
      await zoomTo(0);
      const codes = [
        ...Array(16).fill('KeyW'),
        ...Array(8).fill('KeyD'),
        ...Array(8).fill('KeyA'),
        ...Array(16).fill('KeyS'),
      ];
      return framesWhile(seconds, (i) => press(codes[i % codes.length]));
    },

    idleFrames: (seconds) => framesWhile(seconds, () => {}),

    /** Turns the wheel over the last canvas in every frame. */
    wheelFrames(seconds) {
      const canvas = [...document.querySelectorAll('canvas')].at(-1);
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const place = { clientX: left + width / 2, clientY: top + height / 2 };
      return framesWhile(seconds, (i) => {
        const deltaY = i % 48 < 24 ? -60 : 60;
        canvas.dispatchEvent(
          new WheelEvent('wheel', { ...place, deltaY, ctrlKey: true, bubbles: true, cancelable: true }),
        );
      });
    },

    /**
     * Begins to measure from each event of this type to the picture that shows it: a canvas that `selector` finds is
     * drawn, or the text of such an element is another one.
     */
    watchInputs(type, selector) {
      const found = () => [...document.querySelectorAll(selector)];
      const textOf = () =>
        found()
          .map(({ textContent }) => textContent)
          .join();
      let before = '';
      inputs.tookMs = [];
      inputs.pendingMs = 0;
      inputs.isShown = (sinceMs) =>
        found().some((element) => drawnMs.get(element) >= sinceMs) || (textMs >= sinceMs && textOf() !== before);
      const listener = () => {
        if (inputs.pendingMs > 0) return;
        before = textOf();
        inputs.pendingMs = performance.now();
      };
      removeEventListener(...inputs.listening);
      inputs.listening = [type, listener, true];
      addEventListener(...inputs.listening);
    },
    inputTimes: () => inputs.tookMs,

    watchPlayback() {
      playback.isOn = true;
    },
    playback: () => playback.frames,
  };

  const COLOURS = ['#8d98a6', '#00518f', '#b34700', '#bd8200'];

  let lanes;

  /** Reads the events of a transaction as lanes: starts, ends and colours, in order of start. */
  async function readLanes(transactionId) {
    const response = await fetch(`/api/events?transaction_id=${transactionId}`, {
      headers: { Accept: 'application/vnd.kreplay.columns' },
    });
    const lanes = new Map();
    let firstNs;
    for (const line of (await response.text()).split('\n')) {
      if (!line.startsWith('{"') || line.startsWith('{"coverage')) continue;
      const { base_ns, start, duration, thread, type } = JSON.parse(line);
      if (start === undefined) continue;
      firstNs ??= BigInt(base_ns);
      const offsetNs = Number(BigInt(base_ns) - firstNs);
      for (let i = 0; i < start.length; i++) {
        if (!lanes.has(thread[i])) lanes.set(thread[i], { starts: [], ends: [], types: [] });
        const lane = lanes.get(thread[i]);
        lane.starts.push(offsetNs + start[i]);
        lane.ends.push(offsetNs + start[i] + duration[i]);
        lane.types.push(type[i]);
      }
    }
    return [...lanes.values()];
  }

  /** The colour of each column of a lane: that of its longest event. */
  function coloursOf({ starts, ends, types }, { fromNs, nsPerColumn }, columns) {
    const [colours, longest] = [Array(columns), new Float64Array(columns)];
    for (let i = 0; i < starts.length; i++) {
      const first = Math.max(Math.floor((starts[i] - fromNs) / nsPerColumn), 0);
      const last = Math.min(Math.floor((ends[i] - fromNs) / nsPerColumn), columns - 1);
      for (let column = first; column <= last; column++) {
        if (ends[i] - starts[i] <= longest[column]) continue;
        longest[column] = ends[i] - starts[i];
        colours[column] = COLOURS[types[i] % COLOURS.length];
      }
    }
    return colours;
  }

  async function framesWhile(seconds, act) {
    const betweenMs = [];
    const endMs = performance.now() + seconds * 1000;
    let before = await nextFrame();
    for (let i = 0; performance.now() < endMs; i++) {
      act(i);
      const now = await nextFrame();
      betweenMs.push(now - before);
      before = now;
    }
    return betweenMs;
  }
})();
